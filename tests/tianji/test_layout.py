"""The layout of chunks, by property: fields do not overlap, views read what was written, ragged bytes are counted."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tianji.layout import ALIGNMENT, ChunkLayout, Field, rollout_layout

fields = st.lists(
    st.tuples(st.sampled_from(["<f4", "|u1", "<i8", "|b1"]), st.lists(st.integers(1, 5), min_size=1, max_size=3)),
    min_size=1,
    max_size=6,
).map(lambda parts: [Field(f"f{i}", dtype, tuple(shape)) for i, (dtype, shape) in enumerate(parts)])


@given(fields)
def test_fields_are_aligned_and_disjoint(parts):
    layout = ChunkLayout(parts)
    end = 0
    for field in parts:
        start = layout.offsets[field.name]
        assert start % ALIGNMENT == 0
        assert start >= end
        end = start + field.size_bytes
    assert layout.capacity_bytes >= end


@given(fields, st.integers(0, 2**32))
def test_views_read_what_views_wrote(parts, seed):
    layout = ChunkLayout(parts)
    buffer = bytearray(layout.capacity_bytes)
    rng = np.random.default_rng(seed)
    written = {}
    for name, view in layout.views(buffer).items():
        view[...] = rng.integers(0, 2, view.shape)
        written[name] = view.copy()
    for name, view in layout.views(bytes(buffer)).items():
        assert np.array_equal(view, written[name])


@given(fields)
def test_the_id_follows_from_the_fields(parts):
    assert ChunkLayout(parts).id == ChunkLayout(list(parts)).id
    assert ChunkLayout(parts).id != ChunkLayout([*parts, Field("more", "<f4", (1,))]).id


@given(st.integers(0, 20))
def test_a_ragged_tail_counts_rows_in_use(rows):
    layout = ChunkLayout([Field("a", "<f4", (3,)), Field("tail", "<f4", (20, 7))])
    assert layout.size_bytes(rows) == ALIGNMENT + rows * 7 * 4


def test_more_rows_than_there_is_room_for_are_refused():
    with pytest.raises(ValueError, match="0 to 20 rows"):
        ChunkLayout([Field("tail", "<f4", (20, 7))]).size_bytes(21)


@pytest.mark.parametrize("parts", [[], [Field("a", "<f4", (1,)), Field("a", "<f4", (1,))]])
def test_fields_need_names_of_their_own(parts):
    with pytest.raises(ValueError, match="distinct names"):
        ChunkLayout(parts)


def test_a_rollout_sends_each_observation_once():
    t, b, shape = 16, 4, (84, 84)
    layout = rollout_layout(t, b, shape, "|u1", behaviour=True)
    observations = (t + 1) * b * math.prod(shape)
    other_bytes = t * b * (8 + 4 + 1 + 1 + 4)
    padding = 6 * ALIGNMENT
    assert observations + other_bytes <= layout.size_bytes(0) <= observations + other_bytes + padding
