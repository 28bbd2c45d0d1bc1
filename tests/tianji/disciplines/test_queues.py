"""Chunks that wait, against a plain list of them."""

import random

import pytest

from tianji.disciplines.queues import Waiting
from tianji.messages import ChunkHeader, SlotRef


def chunk(number, rng):
    producer = rng.randrange(4)
    return ChunkHeader(
        producer, number, max(0, number // 5 - rng.randrange(3)), 0, 8, 0, 0, SlotRef(producer, 0), last=rng.random() < 0.3
    )


def test_counts_are_those_of_a_list_after_any_additions_and_removals():
    rng = random.Random(1)
    waiting, plain = Waiting(), []
    for number in range(400):
        if rng.random() < 0.55:
            new = [chunk(number, rng) for _ in range(rng.randrange(3))]
            waiting.extend(new)
            plain += new
        else:
            gone = rng.sample(plain, min(len(plain), rng.randrange(4)))
            waiting.remove(gone)
            plain = [one for one in plain if not any(one is other for other in gone)]
        assert list(waiting) == plain
        assert (len(waiting), waiting[:3], waiting[1:2]) == (len(plain), plain[:3], plain[1:2])
        assert waiting.samples == sum(one.count for one in plain)
        assert waiting.producers == len({one.producer for one in plain})
        assert waiting.handed_over == len({one.producer for one in plain if one.last})
        for arena in range(5):
            assert list(waiting.in_arena(arena)) == [one for one in plain if one.slot.arena == arena]
        assert set(waiting.versions) == {one.version for one in plain}
        if rng.random() < 0.1:
            limit = rng.randrange(number // 5 + 1)
            old = waiting.take_oldest(lambda version, limit=limit: version < limit)
            assert old == [one for one in plain if one.version < limit]
            plain = [one for one in plain if one.version >= limit]


def test_to_look_for_old_chunks_takes_no_look_at_the_others():
    rng, asked = random.Random(1), []
    waiting = Waiting(chunk(number, rng) for number in range(400))
    assert waiting.take_oldest(lambda version: asked.append(version) or version < 2)
    assert asked == [0, 1, 2]


def test_what_is_not_there_cannot_be_removed():
    with pytest.raises(KeyError):
        Waiting().remove([chunk(0, random.Random(0))])
