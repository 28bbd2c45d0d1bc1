"""The layout of chunks, by property: fields do not overlap, views read what was written, ragged bytes are counted."""

import math

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import FrameStackObservation
from hypothesis import given, settings
from hypothesis import strategies as st

from tianji.environments.vector import Stacks
from tianji.layout import ALIGNMENT, ChunkLayout, Field, rollout_layout, stacked

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


def test_layouts_without_stacks_are_what_they_were():
    """Ids follow from all fields: peers and files of earlier versions agree."""
    assert rollout_layout(16, 4, (4,), "<f4", behaviour=True).id == 3887821130007662837
    assert rollout_layout(16, 4, (84, 84), "|u1", behaviour=False).id == 5304353484023908943


def test_with_stacks_every_frame_is_still_sent_once():
    t, b, stack, frame = 16, 4, 4, 84 * 84
    one, four = (rollout_layout(t, b, (84, 84), "|u1", behaviour=True, stack=s) for s in (1, stack))
    assert 0 < four.size_bytes(0) - one.size_bytes(0) - (stack - 1) * b * frame <= 2 * ALIGNMENT
    assert [field.shape for field in four.fields if field.name in ("observation", "age")] == [(t + stack, b, 84, 84), (b,)]


class Counting(gym.Env):
    """Shows a number that never comes again; ends as it is told to."""

    observation_space = gym.spaces.Box(0, 2**30, (1,), np.int32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, first):
        self.number = first

    def reset(self, *, seed=None, options=None):
        self.number += 1
        return np.array([self.number], np.int32), {}

    def step(self, action):
        self.number += 1
        return np.array([self.number], np.int32), 0.0, action == 1, action == 2, {}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 3), st.integers(1, 8), st.floats(0, 0.8))
def test_stacks_are_those_of_gymnasiums_wrapper(seed, stack, environments, steps, ends):
    rng = np.random.default_rng(seed)
    plain = [Counting(1000 * b) for b in range(environments)]
    wrapped = [FrameStackObservation(Counting(1000 * b), stack, padding_type="reset") for b in range(environments)]
    frames = np.stack([env.reset()[0] for env in plain])
    expected = np.stack([env.reset()[0] for env in wrapped])
    rolling = Stacks(frames, stack)
    layout = rollout_layout(steps, environments, (1,), "<i4", behaviour=False, stack=stack)
    for _ in range(3):
        views = layout.views(bytearray(layout.capacity_bytes))
        views["observation"][:stack] = rolling.seen.swapaxes(0, 1) if stack > 1 else rolling.seen
        if stack > 1:
            views["age"][:] = rolling.age
        seen, finals = [expected], []
        for t in range(steps):
            actions = rng.choice(3, environments, p=[1 - ends, ends / 2, ends / 2])
            frames, expected = frames.copy(), expected.copy()
            for b, action in enumerate(actions):
                frames[b], *_ = plain[b].step(action)
                expected[b], *_ = wrapped[b].step(action)
                if action == 2:
                    views["final_observation"][len(finals)] = frames[b]
                    finals.append(expected[b].copy())
                if action:
                    frames[b], expected[b] = plain[b].reset()[0], wrapped[b].reset()[0]
            views["terminated"][t], views["truncated"][t] = actions == 1, actions == 2
            views["observation"][stack + t] = frames
            rolling.push(frames, actions > 0)
            seen.append(expected)
        got, ended = stacked(views, stack)
        assert np.array_equal(got.reshape(steps + 1, environments, stack), np.stack(seen)[..., 0])
        assert np.array_equal(ended.reshape(-1, stack), np.reshape(finals, (-1, stack)))
        assert np.array_equal(rolling.seen.reshape(environments, stack), expected[..., 0])


def test_without_stacks_nothing_is_copied():
    layout = rollout_layout(3, 2, (4,), "<f4", behaviour=False)
    views = layout.views(bytearray(layout.capacity_bytes))
    seen, finals = stacked(views, 1)
    assert np.shares_memory(seen, views["observation"])
    assert seen.shape == (4, 2, 4)
    assert finals.shape == (0, 4)
