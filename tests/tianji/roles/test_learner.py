"""The learner as a state machine."""

import pytest

from tianji.messages import ChunkHeader, ProtocolError, SlotRef
from tianji.roles.learner import Learner, Update, UpdateDone
from tianji.roles.role import Announce, Arrived, Begin, End, PublishWeights, Release, StopAsked, TakeSnapshot, Work, WorkDone


def chunk(producer, sequence=0, version=0, count=8, layout=7):
    return ChunkHeader(producer, sequence, version, layout, count, 0, 64, SlotRef(producer, sequence % 4))


def learner(budget=1000, every=32, rounds=2):
    role = Learner("learner", "batches", layout=7, round_chunks=rounds, budget_steps=budget, snapshot_every_steps=every)
    assert role.handle(Begin()) == [PublishWeights(0), TakeSnapshot(0, 0)]
    return role


def test_trains_when_a_round_is_there_in_an_order_that_is_not_chance():
    role = learner()
    late, early = chunk(1), chunk(0)
    assert role.handle(Arrived("batches", [late])) == []
    assert role.handle(Arrived("batches", [early])) == [Work(Update([early, late], steps=0))]


def test_publishes_before_anything_else_and_gives_credit():
    role = learner()
    chunks = [chunk(0), chunk(1)]
    role.handle(Arrived("batches", chunks))
    effects = role.handle(WorkDone(UpdateDone(chunks, optimizer_steps=20)))
    assert effects == [PublishWeights(20), Release("batches", [c.slot for c in chunks])]
    assert (role.version, role.steps) == (20, 16)


def test_snapshots_at_each_multiple_of_the_interval():
    role = learner(every=32)
    taken = []
    for k in range(6):
        chunks = [chunk(0, k, role.version), chunk(1, k, role.version)]
        role.handle(Arrived("batches", chunks))
        effects = role.handle(WorkDone(UpdateDone(chunks, 1)))
        taken += [effect.steps for effect in effects if isinstance(effect, TakeSnapshot)]
    assert taken == [32, 64, 96]


def test_begins_no_round_that_would_exceed_the_budget():
    role = learner(budget=40)
    for k in range(2):
        chunks = [chunk(0, k, role.version), chunk(1, k, role.version)]
        role.handle(Arrived("batches", chunks))
        effects = role.handle(WorkDone(UpdateDone(chunks, 1)))
    # 32 of 40 steps are done and a round has 16: the last policy goes out, and neither weights nor credit for another.
    assert effects == [TakeSnapshot(2, 32), Announce("steps")]
    assert role.waiting_for() == "stop"
    assert role.handle(StopAsked("steps")) == [End()]


def test_evicts_what_is_stale_and_gives_its_slot_back():
    role = learner()
    chunks = [chunk(0), chunk(1)]
    role.handle(Arrived("batches", chunks))
    role.handle(WorkDone(UpdateDone(chunks, 20)))
    stale = chunk(0, 1, version=0)
    assert role.handle(Arrived("batches", [stale])) == [Release("batches", [stale.slot])]
    assert role.counters()["chunks_evicted"] == 1


def test_a_chunk_of_another_layout_is_refused():
    with pytest.raises(ProtocolError, match="layout 8"):
        learner().handle(Arrived("batches", [chunk(0, layout=8)]))


def test_counts_losses_and_duplicates():
    role = learner(rounds=99)
    role.handle(Arrived("batches", [chunk(0, 0), chunk(0, 3), chunk(0, 3)]))
    counters = role.counters()
    assert (counters["chunks_lost"], counters["chunks_duplicated"]) == (2, 1)


def test_a_stop_waits_for_the_update_and_hands_out_the_last_policy():
    role = learner()
    chunks = [chunk(0), chunk(1)]
    role.handle(Arrived("batches", chunks))
    assert role.handle(StopAsked("return")) == []
    effects = role.handle(WorkDone(UpdateDone(chunks, 20)))
    assert effects[-2:] == [TakeSnapshot(20, 16), End()]


def test_a_round_without_an_optimizer_step_publishes_nothing_and_gives_credit():
    role = learner()
    chunks = [chunk(0), chunk(1)]
    role.handle(Arrived("batches", chunks))
    assert role.handle(WorkDone(UpdateDone(chunks, optimizer_steps=0))) == [Release("batches", [c.slot for c in chunks])]
    assert role.version == 0
