"""The wire format, by property: everything survives the way, and anything else is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tianji.messages import (
    Batch,
    Board,
    ChunkHeader,
    Credit,
    Done,
    Episode,
    Episodes,
    Failed,
    Hello,
    Introduce,
    Join,
    Leave,
    ProtocolError,
    Ready,
    Refused,
    Report,
    Segment,
    Shared,
    SlotRef,
    Snapshot,
    Start,
    Started,
    Stop,
    Subscribe,
    Weights,
    Welcome,
    decode_edge,
    decode_from_role,
    decode_to_role,
    encode,
)

whole = st.integers(-(2**63), 2**63 - 1)
count = st.integers(0, 2**63 - 1)
small = st.integers(0, 2**31 - 1)
slots = st.builds(SlotRef, count, count)
headers = st.builds(ChunkHeader, count, count, count, count, count, count, count, slots)
shared = st.builds(Shared, small, small, small)
real = st.floats(allow_nan=False)
numbers = st.dictionaries(st.text(max_size=8), real, max_size=4)
edge = st.one_of(
    st.builds(Batch, st.lists(headers, max_size=5)),
    st.builds(Credit, st.lists(slots, max_size=5)),
    st.builds(Join, whole, whole, whole, whole, whole, whole, st.none() | shared),
    st.builds(Welcome, whole, st.lists(slots, max_size=5), st.none() | shared),
    st.builds(Refused, whole, st.text()),
    st.builds(Introduce, count, small, small),
    st.builds(Segment, slots, count),
    st.just(Leave()),
    st.builds(Subscribe, whole, whole, whole),
    st.builds(Board, whole, shared),
    st.just(Ready()),
    st.builds(Weights, count),
)
from_role = st.one_of(
    st.builds(Hello, st.text(), whole, whole),
    st.builds(Started, st.text(), whole),
    st.builds(Episodes, st.text(), whole, whole, st.lists(st.builds(Episode, whole, real, whole, whole), max_size=4)),
    st.builds(Snapshot, whole, whole, whole, st.binary(max_size=64)),
    st.builds(Done, st.text()),
    st.builds(Report, st.text(), numbers, numbers, numbers, real, whole),
    st.builds(Failed, st.text(), st.text()),
)


@given(edge)
def test_edge_messages_survive(message):
    assert decode_edge(encode(message)) == message


@given(from_role)
def test_role_messages_survive(message):
    assert decode_from_role(encode(message)) == message


@given(st.one_of(st.builds(Stop, st.text()), st.just(Start())))
def test_launcher_messages_survive(message):
    assert decode_to_role(encode(message)) == message


@given(st.binary(max_size=200))
def test_noise_is_refused_or_is_a_message(frame):
    for decode in (decode_edge, decode_from_role, decode_to_role):
        try:
            message = decode(frame)
        except ProtocolError:
            continue
        assert decode(encode(message)) == message


@given(edge, st.data())
def test_a_frame_cut_short_is_refused(message, data):
    frame = encode(message)
    cut = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(ProtocolError):
        decode_edge(frame[:cut])


@pytest.mark.parametrize("field", range(8))
def test_no_field_of_a_header_may_be_negative(field):
    values = [1, 1, 1, 1, 1, 1, 1, [1, 1]]
    values[field] = -1 if field < 7 else [1, -1]
    with pytest.raises(ProtocolError, match=">= 0"):
        decode_edge(encode([0, [values]]))


def test_a_message_of_another_edge_is_refused():
    with pytest.raises(ProtocolError):
        decode_edge(encode(Stop("x")))
