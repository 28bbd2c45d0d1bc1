"""The learner as a state machine."""

import pytest
from rules import rule

from tianji.averaging import Stamp
from tianji.disciplines.staleness import StalenessLedger
from tianji.messages import ChunkHeader, ProtocolError, SlotRef
from tianji.roles.fusion import Membership
from tianji.roles.learner import Learner
from tianji.roles.role import (
    Announce,
    Arrived,
    Begin,
    End,
    ModelArrived,
    PublishWeights,
    PushModel,
    Release,
    SaveState,
    StopAsked,
    TakeSnapshot,
    Trigger,
    Work,
    WorkDone,
)
from tianji.roles.updating import Adopt, Adopted, Update, UpdateDone


def chunk(producer, sequence=0, version=0, count=8, layout=7):
    return ChunkHeader(producer, sequence, version, layout, count, 0, 64, SlotRef(producer, sequence % 4), took_ns=100)


def learner(
    budget=1000,
    every=32,
    rounds=2,
    name="one-sided",
    bound=0,
    replays=False,
    free=0,
    slots=8,
    membership=None,
    correct=False,
    producers=2,
):
    role = Learner(
        "learner",
        port="batches",
        layout=7,
        discipline=rule(
            name,
            {"lag_rounds": "none" if bound is None else bound, "beyond_bound": "correct" if correct else "evict"}
            if name != "off"
            else {},
            round_chunks=rounds,
            producers=producers,
            slots=slots // producers,
            replays=replays,
            free_samples=free,
        ),
        replays=replays,
        budget_steps=budget,
        snapshot_every_steps=every,
        membership=membership,
    )
    begun = [PublishWeights(0)] if every is None else [PublishWeights(0), TakeSnapshot(0, 0)]
    assert role.handle(Begin())[: len(begun)] == begun
    return role


def done(chunks, optimizer_steps):
    return WorkDone(UpdateDone(chunks, optimizer_steps, 64 if optimizer_steps else 0), took_ns=1000)


def released(effects):
    return [slot for effect in effects if isinstance(effect, Release) for slot in effect.slots]


def test_trains_when_a_round_is_there_in_an_order_that_is_not_chance():
    role = learner()
    late, early = chunk(1), chunk(0)
    assert role.handle(Arrived("batches", [late])) == []
    assert role.handle(Arrived("batches", [early])) == [Work(Update([early, late], steps=0))]


def test_publishes_before_anything_else_and_gives_credit():
    role = learner()
    chunks = [chunk(0), chunk(1)]
    role.handle(Arrived("batches", chunks))
    assert role.handle(done(chunks, 20)) == [PublishWeights(20), Release("batches", [c.slot for c in chunks])]
    assert (role.version, role.steps) == (20, 16)


def test_snapshots_at_each_multiple_of_the_interval():
    role = learner(every=32)
    taken = []
    for k in range(6):
        chunks = [chunk(0, k, role.version), chunk(1, k, role.version)]
        role.handle(Arrived("batches", chunks))
        taken += [effect.steps for effect in role.handle(done(chunks, 1)) if isinstance(effect, TakeSnapshot)]
    assert taken == [32, 64, 96]


@pytest.mark.parametrize("barrier", [True, False])
def test_a_multiple_that_steps_of_other_groups_pass_has_a_snapshot(barrier):
    role, taken, elsewhere = learner(every=64, budget=1000, membership=Membership(0, 8, 1, barrier)), [], 0
    for k in range(8):
        chunks = [chunk(0, k, role.version), chunk(1, k, role.version)]
        role.handle(Arrived("batches", chunks))
        effects = role.handle(done(chunks, 1))
        elsewhere += 48
        effects += role.handle(ModelArrived("root", (Stamp(k + 1, 16, role.steps), Stamp(1, 0, elsewhere))))
        effects += role.handle(WorkDone(Adopted(), took_ns=1))
        taken += [(effect.version, effect.steps) for effect in effects if isinstance(effect, TakeSnapshot)]
    # After each mean, because each brings the steps to a multiple.
    assert taken == [(2 * k, 64 * k) for k in range(1, 9)]


def test_a_restored_learner_takes_no_snapshot_for_multiples_of_before():
    role, later = learner(every=32, budget=1000), learner(every=32, budget=1000)
    for k in range(2):
        chunks = [chunk(0, k, role.version), chunk(1, k, role.version)]
        role.handle(Arrived("batches", chunks))
        role.handle(done(chunks, 1))
    later.restore(role.state(), replay_kept=True)
    taken = []
    for k in range(2, 5):
        chunks = [chunk(0, k, later.version), chunk(1, k, later.version)]
        later.handle(Arrived("batches", chunks))
        taken += [effect.steps for effect in later.handle(done(chunks, 1)) if isinstance(effect, TakeSnapshot)]
    assert taken == [64]


def test_begins_no_round_that_would_exceed_the_budget():
    role = learner(budget=40)
    for k in range(2):
        chunks = [chunk(0, k, role.version), chunk(1, k, role.version)]
        role.handle(Arrived("batches", chunks))
        effects = role.handle(done(chunks, 1))
    # 32 of 40 steps are done and a round has 16: the last policy goes out, and neither weights nor credit for another.
    assert effects == [TakeSnapshot(2, 32), Announce("steps")]
    assert role.waiting_for() == "stop"
    assert role.handle(StopAsked("steps")) == [End()]


def test_evicts_what_is_stale_and_gives_its_slot_back():
    role = learner()
    chunks = [chunk(0), chunk(1)]
    role.handle(Arrived("batches", chunks))
    role.handle(done(chunks, 20))
    stale = chunk(0, 1, version=0)
    assert role.handle(Arrived("batches", [stale])) == [Release("batches", [stale.slot])]
    assert role.counters()["chunks_evicted"] == 1


def test_what_the_learner_overtook_while_it_waited_is_evicted_before_the_round():
    role = learner(rounds=1, bound=0)
    role.handle(Arrived("batches", [chunk(0, 0)]))
    waiting = [chunk(0, 1), chunk(1, 0)]
    role.handle(Arrived("batches", waiting))
    effects = role.handle(done([chunk(0, 0)], 6))
    assert not [effect for effect in effects if isinstance(effect, Work)], (
        "both were of version 0, six updates and a round behind"
    )
    assert set(released(effects)) == {SlotRef(0, 0), SlotRef(0, 1), SlotRef(1, 0)}
    counters = role.counters()
    assert (counters["chunks_evicted"], counters["samples_admitted"], counters["samples_inserted"]) == (2, 8, 8)
    assert counters["age_max_versions"] == counters["age_max_rounds"] == 0


def test_a_bound_is_of_rounds_however_many_updates_they_have():
    role = learner(rounds=1, bound=1)
    role.handle(Arrived("batches", [chunk(0, k) for k in range(3)]))
    assert Work(Update([chunk(0, 1)], steps=8, stale=True)) in role.handle(done([chunk(0, 0)], 6)), "one round behind"
    assert not [e for e in role.handle(done([chunk(0, 1)], 6)) if isinstance(e, Work)], "two"
    assert role.counters()["chunks_evicted"] == 1
    assert (role.counters()["age_max_rounds"], role.counters()["age_max_versions"]) == (1, 6)


def test_what_waits_is_looked_through_once_a_round(monkeypatch):
    """Not at every arrival: with 2,048 actors that took .4 s a round."""
    looked = []
    within = StalenessLedger.within
    monkeypatch.setattr(StalenessLedger, "within", lambda self, rounds: looked.append(rounds) or within(self, rounds))
    role = learner(rounds=1000, bound=4, producers=1000, slots=4000)
    for arena in range(1000):
        role.handle(Arrived("batches", [chunk(arena)]))
    role.handle(done([chunk(arena) for arena in range(1000)], 1))
    assert len(looked) == 1000


def test_what_is_beyond_the_bound_can_be_corrected_instead():
    role = learner(rounds=1, bound=0, correct=True)
    role.handle(Arrived("batches", [chunk(0, 0), chunk(0, 1)]))
    effects = role.handle(done([chunk(0, 0)], 6))
    assert Work(Update([chunk(0, 1)], steps=8, stale=True)) in effects
    assert (role.counters()["chunks_corrected"], role.counters()["chunks_evicted"]) == (1, 0)


def test_a_chunk_of_another_layout_is_refused():
    with pytest.raises(ProtocolError, match="layout 8"):
        learner().handle(Arrived("batches", [chunk(0, layout=8)]))


def test_counts_losses_and_never_trains_on_a_duplicate():
    role = learner(rounds=3)
    effects = role.handle(Arrived("batches", [chunk(0, 0), chunk(0, 3), chunk(0, 3)]))
    counters = role.counters()
    assert (counters["chunks_lost"], counters["chunks_duplicated"], counters["samples_admitted"]) == (2, 1, 16)
    assert effects == [Release("batches", [SlotRef(0, 3)])]


def test_a_stop_waits_for_the_update_and_hands_out_the_last_policy():
    role = learner()
    chunks = [chunk(0), chunk(1)]
    role.handle(Arrived("batches", chunks))
    assert role.handle(StopAsked("return")) == []
    effects = role.handle(done(chunks, 20))
    assert effects[-2:] == [TakeSnapshot(20, 16), End()]


def test_a_replay_that_fills_publishes_nothing_and_gives_credit():
    role = learner(rounds=2, replays=True, free=32, bound=None)
    chunks = [chunk(0), chunk(1)]
    assert role.handle(Arrived("batches", chunks)) == [Work(Update(chunks, steps=0, train=False))]
    assert role.handle(done(chunks, 0)) == [Release("batches", [c.slot for c in chunks])]
    assert (role.version, role.steps) == (0, 16)


def test_a_replay_takes_all_that_came_and_trains_no_more_than_it_pays_for():
    role = learner(rounds=2, replays=True, bound=None, every=None)
    chunks = [chunk(0, k) for k in range(5)]
    assert role.handle(Arrived("batches", chunks)) == [Work(Update(chunks, steps=0))]
    rounds = 1
    effects = role.handle(done(chunks, 3))
    while work := [effect for effect in effects if isinstance(effect, Work)]:
        assert work == [Work(Update([], steps=40))]
        rounds += 1
        effects = role.handle(done([], 3))
    assert rounds == 2, "five chunks pay for two rounds of two"


def test_without_balance_a_replay_trains_on_and_on():
    role = learner(rounds=2, replays=True, bound=None, name="off", budget=80)
    effects = role.handle(Arrived("batches", [chunk(0)]))
    for k in range(20):
        assert [type(effect) for effect in effects if isinstance(effect, Work)] == [Work], k
        effects = role.handle(done([], 1))
    role.handle(Arrived("batches", [chunk(0, k) for k in range(1, 10)]))
    role.handle(done([], 1))
    # The budget is full: it stops although it could go on.
    assert Announce("steps") in role.handle(done([], 1))


def test_two_sided_credit_is_withheld_until_what_lies_here_is_used_up_and_then_nobody_waits():
    role = learner(rounds=1, name="relaxed", bound=None, slots=8, every=None)
    # The first window has two chunks of each actor.
    chunks = [chunk(producer, k) for producer in (0, 1) for k in (0, 1)]
    assert len(released(role.handle(Arrived("batches", chunks)))) == 1, "one of four is being trained on"
    # A chunk takes its actor a tenth of what a round takes: one chunk ahead is enough.
    given = [released(role.handle(done([c], 1))) for c in chunks]
    assert given[:3] == [[], [], []]
    # Now nothing is left. The first actor is at work; the second need not wait for it.
    assert [slot.arena for slot in given[3]] == [1]
    assert (role.balance.margin, role.balance.window) == (1, 2)
    role.handle(Arrived("batches", [chunk(1, 2)]))
    assert role.counters()["rounds_starved"] == 1


def test_two_sided_credit_goes_to_the_actor_that_has_least():
    role = learner(rounds=4, name="relaxed", bound=None, slots=8, every=None)
    first = [chunk(0, 0), chunk(0, 1), chunk(0, 2), chunk(1, 0)]
    role.handle(Arrived("batches", first))
    assert released(role.handle(done(first, 1))) == [], "four are on their way"
    effects = role.handle(Arrived("batches", [*(chunk(1, k) for k in range(1, 4)), chunk(0, 3)]))
    assert released(effects) == [SlotRef(0, 0), SlotRef(1, 0), SlotRef(0, 1), SlotRef(0, 2)]


@pytest.mark.parametrize("replays", [True, False])
def test_credit_counts_what_comes_while_the_learner_works(replays):
    """A chunk on its way into a replay is outstanding until it is in: B + O is never above the widest window so far."""
    role = learner(rounds=1, name="relaxed", bound=None, slots=16, every=None, replays=replays)
    sent, works, widest = [0, 0], [], role.balance.window

    def work_in(effects):
        works.extend(effect.argument for effect in effects if isinstance(effect, Work))

    for step in range(60):
        arena = step % 2
        if role.credits.held(arena):
            work_in(role.handle(Arrived("batches", [chunk(arena, sent[arena], role.version)])))
            sent[arena] += 1
        if works and step % 3 == 0:
            # It trains for as long as three chunks take to come.
            work_in(role.handle(done(works.pop(0).chunks, 1)))
        widest = max(widest, role.balance.window)
        outstanding = role.credits.held(0) + role.credits.held(1) + replays * len(role.intake.pending)
        assert role.balance.outstanding == outstanding
        assert role.balance.backlog // 8 + outstanding <= widest
    assert min(sent) > 5


MEMBER = Membership(group=1, groups=2, every_rounds=1, barrier=False)


def test_a_group_pushes_its_model_goes_on_and_adopts_the_mean_that_has_it():
    role = learner(rounds=1, bound=None, every=None, membership=MEMBER)
    role.handle(Arrived("batches", [chunk(0, k) for k in range(3)]))
    effects = role.handle(done([chunk(0, 0)], 2))
    assert effects[:2] == [PushModel(1, (Stamp(1, 8, 8), Stamp()), "root"), PublishWeights(2)]
    assert Work(Update([chunk(0, 1)], steps=8, stale=True)) in effects
    # A mean made without our push would take back what we learned: it is passed over.
    assert role.handle(ModelArrived("root", (Stamp(), Stamp(1, 0, 8)))) == []
    # However many rounds the answer takes, there is no other push before it: it would come too late for that one as well.
    effects = role.handle(done([chunk(0, 1)], 2))
    assert not [e for e in effects if isinstance(e, PushModel)]
    role.handle(ModelArrived("root", (Stamp(1, 8, 8), Stamp(1, 0, 24))))
    effects = role.handle(done([chunk(0, 2)], 2))
    assert Work(Adopt()) in effects
    assert not [e for e in effects if isinstance(e, PushModel)]
    assert role.fusion.steps_elsewhere == 24
    # Then the rounds since are pushed together.
    assert role.handle(WorkDone(Adopted())) == [
        PushModel(2, (Stamp(2, 16, 24), Stamp()), "root"),
        PublishWeights(7),
    ], "six optimizer steps and one mean"
    assert role.counters()["optimizer_steps"] == 6


def test_a_strict_group_waits_for_the_mean_before_anybody_gets_weights():
    role = learner(every=16, membership=Membership(0, 2, 1, barrier=True))
    chunks = [chunk(0), chunk(1)]
    role.handle(Arrived("batches", chunks))
    effects = role.handle(done(chunks, 20))
    assert effects == [PushModel(1, (Stamp(1, 16, 16), Stamp()), "root"), Release("batches", [c.slot for c in chunks])]
    assert role.waiting_for() == "barrier"
    assert role.handle(ModelArrived("root", (Stamp(1, 16, 16), Stamp(1, 0, 16)))) == [Work(Adopt())]
    assert role.handle(WorkDone(Adopted())) == [PublishWeights(21), TakeSnapshot(21, 32)]
    assert role.waiting_for() == "samples"


def test_the_last_round_of_a_strict_group_is_averaged_too():
    role = learner(budget=16, membership=Membership(0, 2, 1, barrier=True))
    chunks = [chunk(0), chunk(1)]
    role.handle(Arrived("batches", chunks))
    assert Announce("steps") not in role.handle(done(chunks, 20))
    role.handle(ModelArrived("root", (Stamp(1, 16, 16), Stamp(1, 0, 16))))
    assert role.handle(WorkDone(Adopted())) == [TakeSnapshot(21, 32), Announce("steps")]


def test_the_mean_of_one_group_alone_changes_nothing_and_takes_no_time():
    role = learner(rounds=1, bound=None, every=None, membership=Membership(0, 2, 1, barrier=False))
    role.handle(Arrived("batches", [chunk(0, k) for k in range(2)]))
    role.handle(done([chunk(0, 0)], 2))
    assert role.handle(ModelArrived("root", (Stamp(1, 8, 8), Stamp()))) == [], "it works on"
    assert (role.version, role.fusion.adopted) == (2, 1)
    assert PushModel(2, (Stamp(2, 8, 16), Stamp()), "root") in role.handle(done([chunk(0, 1)], 2))


def test_groups_that_do_not_wait_share_what_is_left_of_the_budget():
    for waits, ends in ((False, True), (True, False)):
        role = learner(budget=64, rounds=1, bound=None, every=None, membership=Membership(0, 2, 1, barrier=waits))
        role.handle(Arrived("batches", [chunk(0)]))
        role.handle(done([chunk(0)], 2))
        # The other group has done all but a round.
        role.handle(ModelArrived("root", (Stamp(1, 8, 8), Stamp(1, 0, 56))))
        effects = role.handle(WorkDone(Adopted()))
        assert (Announce("steps") in effects) == ends


def test_a_stop_in_the_middle_of_a_round_stores_no_steps_whose_gradient_is_lost():
    role = Learner(
        "learner",
        port="batches",
        layout=7,
        discipline=rule("stream", one_step=True, gathered=1),
        replays=False,
        budget_steps=1000,
        snapshot_every_steps=None,
        saves=True,
    )
    role.handle(Begin())
    rounds = [[chunk(0), chunk(1)], [chunk(0, 1, 1)]]
    for producer in (0, 1):
        (work,) = (e for e in role.handle(Arrived("batches", [rounds[0][producer]])) if isinstance(e, Work))
        assert work.argument.train == (producer == 1)
        role.handle(done([rounds[0][producer]], producer))
    role.handle(Arrived("batches", rounds[1]))
    # Half of a round was computed, and its optimizer step will not come.
    role.handle(StopAsked("interrupted"))
    effects = role.handle(WorkDone(UpdateDone(rounds[1], 0, 32), took_ns=1000))
    (saved,) = (effect for effect in effects if isinstance(effect, SaveState))
    assert saved.values["steps"] == role.counters()["steps"] == 16
    assert saved.values["rounds"] == 1


def test_a_condition_that_stays_true_is_named_and_does_not_spin_for_ever():
    role = learner()
    role.triggers = (Trigger("hold", lambda: True, list), *role.triggers)
    with pytest.raises(RuntimeError, match=r"learner: triggers fired .* the condition of 'hold' stays true after its call"):
        role.handle()
