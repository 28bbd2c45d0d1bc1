"""The buffer as a state machine."""

from hypothesis import given
from hypothesis import strategies as st
from rules import rule

from tianji.messages import ChunkHeader, SlotRef
from tianji.roles.buffer import Buffer
from tianji.roles.role import Arrived, Credited, Release, Send


def chunk(number):
    return ChunkHeader(number % 3, number // 3, 0, 7, 8, 0, 64, SlotRef(number % 3, number))


@given(st.lists(st.integers(1, 5), max_size=12), st.integers(1, 4))
def test_forwards_whole_batches_in_order_of_arrival(arrivals, batch):
    role = Buffer("buffer", discipline=rule(gathered=batch))
    sent, number = [], 0
    for count in arrivals:
        chunks = [chunk(number + i) for i in range(count)]
        number += count
        for effect in role.handle(Arrived("chunks", chunks)):
            assert isinstance(effect, Send)
            assert len(effect.chunks) == batch
            sent += effect.chunks
    assert sent == [chunk(i) for i in range(number - number % batch)]
    assert role.counters()["chunks_forwarded"] == len(sent)
    assert len(role.fifo) == number % batch


def test_credit_goes_back_the_way_the_chunks_came():
    role = Buffer("buffer", discipline=rule())
    slots = [SlotRef(0, 1), SlotRef(1, 0)]
    assert role.handle(Credited("batches", slots)) == [Release("chunks", slots)]
