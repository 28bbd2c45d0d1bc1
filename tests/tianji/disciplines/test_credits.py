"""The account of credit."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tianji.disciplines.credits import Credits
from tianji.messages import SlotRef


def test_a_slot_goes_to_the_actor_that_holds_least_and_of_equals_to_the_one_that_waits_longest():
    credits = Credits(producers=3, slots=2, first=2)
    for arena in (2, 0, 2, 1):
        credits.spend(arena)
    for slot in (SlotRef(0, 0), SlotRef(2, 1), SlotRef(1, 0), SlotRef(2, 0)):
        credits.reclaim(slot)
    assert credits.someone_waits(), "number 2 has nothing"
    assert not credits.someone_waits(0)
    assert [credits.grant() for _ in range(4)] == [SlotRef(2, 1), SlotRef(0, 0), SlotRef(1, 0), SlotRef(2, 0)]
    assert credits.idle == 0
    assert not credits.someone_waits()
    with pytest.raises(IndexError):
        credits.grant()


def test_what_is_not_there_from_the_start_waits_to_be_granted():
    credits = Credits(producers=2, slots=3, first=1)
    assert credits.waiting() == [SlotRef(0, 1), SlotRef(0, 2), SlotRef(1, 1), SlotRef(1, 2)]
    assert [credits.held(a) for a in (0, 1)] == [1, 1]
    assert [credits.grant().arena for _ in range(4)] == [0, 1, 0, 1]


def test_a_successor_may_write_all_that_is_not_in_our_hands():
    credits = Credits(producers=1, slots=4, first=4)
    credits.spend(0)
    credits.reclaim(SlotRef(0, 2))
    credits.spend(0)
    # One chunk is being read, one slot is here; of the two others one was lost on its way.
    assert credits.recount(0, read=1) == 0
    credits.spend(0)
    assert credits.recount(0, read=1) == 1
    assert credits.held(0) == 2


@given(st.integers(1, 6), st.integers(1, 5), st.lists(st.integers(0, 5), max_size=200), st.data())
def test_against_a_plain_search(producers, slots, spent, data):
    credits = Credits(producers, slots, first=slots)
    held = [slots] * producers
    away = [[SlotRef(a, n) for n in range(slots)] for a in range(producers)]
    idle = collections.deque()
    for arena in spent:
        arena %= producers
        if away[arena]:
            held[arena] -= 1
            credits.spend(arena)
            slot = away[arena].pop()
            idle.append(slot)
            credits.reclaim(slot)
        assert credits.idle == len(idle)
        assert credits.someone_waits() == any(held[slot.arena] == 0 for slot in idle)
        assert credits.someone_waits(2) == any(held[slot.arena] < 2 for slot in idle)
        while idle and data.draw(st.booleans()):
            wanted = min(idle, key=lambda slot: held[slot.arena])
            assert credits.grant() == wanted
            idle.remove(wanted)
            held[wanted.arena] += 1
            away[wanted.arena].append(wanted)
