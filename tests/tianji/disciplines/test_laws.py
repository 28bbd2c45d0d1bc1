"""Every discipline keeps its laws whatever the order of events, and laws can be broken."""

import contextlib
import functools

import in_threads
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs.cli import ConfigError
from tianji.config import DQNConfig, IMPALAConfig, NetworkConfig, PPOConfig, SimulatorConfig, TrainConfig
from tianji.disciplines.free import ROOM
from tianji.disciplines.laws import (
    Began,
    History,
    Published,
    Took,
    Used,
    each_chunk_once,
    each_hands_over_once,
    in_flight_within,
    in_order_of_producers,
    lag_at_most,
    lag_exactly,
    leaves_slots,
    nothing_after_handing_over,
    one_of_each_in_a_round,
    rounds_within_memory,
    waits_for_weights,
    weights_on_schedule,
    whole_tags_in_turn,
)
from tianji.disciplines.periodic import Periodic
from tianji.disciplines.queues import Waiting
from tianji.disciplines.reactor import Reactor
from tianji.disciplines.registry import DISCIPLINES
from tianji.disciplines.relaxed import Relaxed
from tianji.disciplines.sizes import Unpublished
from tianji.environments.making import describe
from tianji.messages import ChunkHeader, Done, Report, SlotRef, Snapshot
from tianji.roles import learner
from tianji.roles.role import Work
from tianji.roles.updating import Update
from tianji.run.training import train
from tianji.simulation.historian import Historian
from tianji.worlds import lockstep

PPO = PPOConfig(rollout_steps=4, minibatch_size=32, epochs=1)
DQN = DQNConfig(train_every_steps=24, updates=1, batch_size=8, replay_capacity=400, learning_starts=48)
OF = {"env": "CartPole-v1", "actors": 3, "envs_per_actor": 4, "stop_steps": 480}
MADE = {
    "ppo": TrainConfig(**OF, ppo=PPO, discipline="relaxed"),
    "impala": TrainConfig(**OF, algo="impala", impala=IMPALAConfig(rollout_steps=4)),
    "dqn": TrainConfig(**OF | {"envs_per_actor": 1}, algo="dqn", dqn=DQN, network=NetworkConfig(kind="mlp-q", hidden=(8,))),
}
CARTPOLE = functools.cache(lambda: describe("CartPole-v1"))
BOUNDED = ("relaxed", "one-sided")
RAGGED = ("quota-free",)
"""Their rounds have any number of rows."""
OPTIONS = dict.fromkeys(("admitted", "admitted-in-order", "admitted-interruptible"), "eta") | {"stream": "ahead"}
ONE_STEP = ("stream",)
RUNS = [("ppo", name) for name in DISCIPLINES.names() if name not in ONE_STEP]
RUNS += [("impala", name) for name in DISCIPLINES.names()]
RUNS += [("dqn", name) for name in (*BOUNDED, "off", "free", "reactor", "periodic")]


def configured(algo, name, slots, bound, **more):
    options = {OPTIONS.get(name, "lag_rounds"): bound} if name in (*BOUNDED, *OPTIONS) and bound != "auto" else {}
    if name == "periodic":
        options = {"every_updates": 2 if bound == "auto" else bound + 1}
    # A round may be of one actor's chunks, and it is to have slots left.
    slots += 4 * (name == "free")
    data = {field: getattr(MADE[algo], field) for field in MADE[algo].__struct_fields__}
    return TrainConfig(**{**data, "discipline": {"name": name, **options}, "chunk_slots": slots, **more})


SMALL = {"envs_per_actor": 1, "stop_steps": 96, "network": NetworkConfig(kind="mlp-separate", hidden=(8,))}
BRIEF = {"ppo": SMALL, "impala": SMALL, "dqn": {"stop_steps": 192}}
"""Runs of eight rounds with few steps and a small network. What laws are about is the order of events, which is the same."""


def ran(config, order):
    """The history of a run in lockstep, and the weights that it came to."""
    historian, snapshots = Historian(), []

    def on_message(message):
        if isinstance(message, Snapshot):
            snapshots.append(message.weights)
        return "steps" if isinstance(message, Done) else None

    lockstep.run(config, CARTPOLE(), on_message, order, historian)
    return historian.history, snapshots[-1]


@pytest.mark.long(why="every rule in many orders of events")
@pytest.mark.parametrize(("algo", "name"), RUNS)
@settings(max_examples=60, deadline=None)
@given(order=st.integers(0, 10**6), slots=st.integers(2, 5), bound=st.sampled_from(["auto", 0, 1, 3]))
def test_laws_hold_in_every_order_of_events_and_the_run_ends(algo, name, order, slots, bound):
    config = configured(algo, name, slots, bound, **BRIEF[algo])
    history, _ = ran(config, order)
    assert config.rule.laws
    for law in config.rule.laws:
        assert list(law.broken(history, config.rule)) == [], law.text
    used = sum(len(took.chunks) for took in history.took)
    assert name in RAGGED or used * config.chunk_samples > config.stop_steps - config.round_steps
    assert history.began


LONG = {"ppo": {"ppo": msgspec.structs.replace(PPO, rollout_steps=32)}, "impala": {"impala": IMPALAConfig(rollout_steps=32)}}
LONG["dqn"] = {"dqn": msgspec.structs.replace(DQN, train_every_steps=96)}


@pytest.mark.long(why="every rule in many orders of events")
@pytest.mark.parametrize("algo", ["ppo", "impala", "dqn"])
@pytest.mark.parametrize("what", ["cut", "renew"])
def test_fragments_that_are_cut_or_go_on_with_newer_weights_are_trained_on(algo, what, monkeypatch):
    """Chunks have other numbers of rows, or rows of several versions; runs keep their laws and come to their ends."""
    monkeypatch.setattr(Relaxed, "when_weights_wait", what)
    config = configured(algo, "relaxed", 4, "auto")
    data = {field: getattr(config, field) for field in config.__struct_fields__}
    config = TrainConfig(**data | LONG[algo] | {"stop_steps": 3840})
    told, used = [], []
    for order in range(8):
        historian = Historian()

        def watch(role, events, effects, historian=historian):
            historian(role, events, effects)
            used.extend(c for e in effects if isinstance(e, Work) and isinstance(e.argument, Update) for c in e.argument.chunks)

        def on_message(message):
            told.append(message)
            return "steps" if isinstance(message, Done) else None

        lockstep.run(config, CARTPOLE(), on_message, order, watch)
        for law in config.rule.laws:
            assert list(law.broken(historian.history, config.rule)) == [], law.text
    assert all(np.isfinite(np.frombuffer(m.weights, "<f4")).all() for m in told if isinstance(m, Snapshot))
    for report in (m for m in told if isinstance(m, Report) and m.role.startswith("learner")):
        assert report.counters["steps"] > config.stop_steps - 2 * config.round_steps
    assert all(0 < chunk.count <= config.chunk_samples for chunk in used)
    if what == "cut":
        assert any(chunk.count < config.chunk_samples for chunk in used)
        assert not any(chunk.renewals for chunk in used)
    else:
        assert any(chunk.renewals for chunk in used)
        assert all(version > chunk.version for chunk in used for _, version in chunk.renewals)


@pytest.mark.long(why="every rule in many orders of events")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("placement", ["apart", "auto"])
@pytest.mark.parametrize(("algo", "name"), RUNS)
def test_laws_hold_where_roles_really_wait_for_each_other(algo, name, placement, record_property):
    config = configured(algo, name, 3, "auto")
    data = {field: getattr(config, field) for field in config.__struct_fields__}
    held_up = SimulatorConfig(step_seconds=0.0005, distribution="pareto", alpha=1.5, spread=4.0)
    config = TrainConfig(**data | {"simulator": held_up, "placement": placement, "checkpoint_seconds": None, "restarts": 0})
    historian = Historian()
    in_threads.run(config, historian)
    for law in config.rule.laws:
        assert list(law.broken(historian.history, config.rule)) == [], law.text
        record_property("law", f"{name}: {law.text}")
    used = sum(len(took.chunks) for took in historian.history.took)
    assert name in RAGGED or used * config.chunk_samples > config.stop_steps - config.round_steps


BARRIERS = [(algo, name) for algo in ("ppo", "impala") for name in ("strict", "exactly-one-round", "reactor")]


@pytest.mark.parametrize(("algo", "name"), [*BARRIERS, ("dqn", "reactor")])
def test_a_barrier_gives_the_same_weights_in_every_order(algo, name):
    found = {
        ran(configured(algo, name, slots, "auto"), order)[1] for order, slots in [(None, 2), (1, 2), (2, 3), (3, 4), (4, 2)]
    }
    assert len(found) == 1


@pytest.mark.parametrize("algo", ["ppo", "impala"])
def test_admission_in_order_of_nothing_ahead_is_strict_to_the_bit(algo):
    strict = ran(configured(algo, "strict", 3, "auto"), None)[1]
    assert {ran(configured(algo, "admitted-in-order", 3, 0), order)[1] for order in (None, 1, 2)} == {strict}
    assert ran(configured(algo, "admitted-in-order", 3, 1), None)[1] != strict


@pytest.mark.parametrize("algo", ["ppo", "impala"])
def test_reactors_that_fill_no_replay_are_strict_to_the_bit(algo):
    assert ran(configured(algo, "reactor", 3, "auto"), 1)[1] == ran(configured(algo, "strict", 3, "auto"), None)[1]


def test_a_replay_depends_on_the_order_of_events_unless_its_rounds_are_tags():
    assert len({ran(configured("dqn", "relaxed", 3, "auto"), order)[1] for order in (1, 2, 3)}) > 1


@pytest.mark.parametrize(("starts", "silent"), [(0, 0), (1, 0), (9, 1), (24, 1), (48, 2), (50, 2), (58, 3)])
def test_the_tags_that_fill_a_replay_are_under_way_at_once_and_the_run_goes_on(starts, silent):
    """Chunks have 8 steps and tags 24. The first chunk that is there when the replay is warm is paid for."""
    dqn = msgspec.structs.replace(DQN, learning_starts=starts)
    config = configured("dqn", "reactor", 3, "auto", dqn=dqn, stop_steps=250)
    assert config.rule.silent == silent
    for order in (None, 1, 2):
        history, _ = ran(config, order)
        assert [law.text for law in config.rule.laws if list(law.broken(history, config.rule))] == []
        # Of ten tags that fit into the budget, the last one's weights are for nobody.
        assert (len(history.took), len(history.published)) == (10, 10 - silent - 1)
        assert max(one.begun for one in history.began if one.heard == 1) == silent


@pytest.mark.long(why="every rule in many orders of events")
@pytest.mark.parametrize(
    ("where", "name", "wrong", "says"),
    [
        (Reactor, "whole_rounds", False, "takes a tag as a whole"),
        (Reactor, "next_round", lambda self, pending, part=(): pending[: self.facts.producers], "takes a tag as a whole"),
        (Reactor, "may_begin", lambda self, begun, heard: heard > 0, "takes a tag as a whole"),
        (learner, "in_order", list, "in the order of their producers"),
    ],
)
def test_what_a_reactor_may_not_do_breaks_a_law(where, name, wrong, says, monkeypatch):
    monkeypatch.setattr(where, name, wrong)
    config, broken = configured("dqn", "reactor", 3, "auto"), set()
    for order in range(10):
        historian = Historian()
        with contextlib.suppress(lockstep.Deadlock):
            lockstep.run(config, CARTPOLE(), lambda m: "steps" if isinstance(m, Done) else None, order, historian)
        broken |= {law.text for law in config.rule.laws if list(law.broken(historian.history, config.rule))}
    assert any(says in text for text in broken)


def test_a_tag_is_one_chunk_of_each():
    dqn = {"send_steps": 4, "discipline": "reactor"}
    data = {field: getattr(MADE["dqn"], field) for field in MADE["dqn"].__struct_fields__}
    with pytest.raises(ConfigError, match="one chunk of each of 3 actors in a round, not 6; leave send_steps out"):
        TrainConfig(**data | dqn).rule.check()
    with pytest.raises(ConfigError, match="batch_chunks 3: under discipline 'reactor' a buffer passes chunks on one by one"):
        TrainConfig(**OF, ppo=PPO, batch_chunks=3, discipline="reactor").rule.check()


@pytest.mark.parametrize("every", [1, 3])
def test_age_follows_the_schedule(every):
    """IMPALA makes an update a round. The freshest chunk that there can be is of the last publication."""
    config, least = configured("impala", "periodic", 3, every - 1), set()
    for order in (None, *range(10)):
        history, _ = ran(config, order)
        assert {one.since.updates for one in history.published} == {every}
        for took in history.took:
            youngest = min(chunk.behind for chunk in took.chunks)
            assert youngest >= took.since.updates == took.rounds % every
            least.add(youngest - took.since.updates)
    assert 0 in least


def test_weights_go_out_by_the_time_that_the_learner_works():
    options = {"name": "periodic", "every_updates": 1, "every_seconds": 0.006}
    for algo in ("ppo", "dqn"):
        data = {field: getattr(MADE[algo], field) for field in MADE[algo].__struct_fields__}
        config = TrainConfig(**data | {"discipline": options})
        history, _ = ran(config, 1)
        assert [law.text for law in config.rule.laws if list(law.broken(history, config.rule))] == []
        assert len(history.published) > 2
        # Time is a count here, of a thousandth of a second each.
        assert all(one.since.worked_ns >= 6_000_000 for one in history.published)
        assert any(one.since.updates > 2 for one in history.published)


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
@pytest.mark.parametrize(("times", "says"), [(0, "too early"), (2, "were due")])
def test_weights_that_go_out_off_their_schedule_break_its_law(algo, times, says, monkeypatch):
    config = configured(algo, "periodic", 3, 3)

    def at_another_time(self, pending, since):
        return since.updates >= times * self.options.every_updates

    monkeypatch.setattr(Periodic, "may_publish", at_another_time)
    found = list(weights_on_schedule.broken(ran(config, 1)[0], config.rule))
    assert found
    assert all(line.endswith(says) for line in found)


@pytest.mark.long(why="every rule in many orders of events")
@pytest.mark.parametrize("eta", [0, 1, 3])
def test_what_is_admitted_is_used_to_the_full(eta):
    """A law holds of a rule that admits nothing, too: so many fragments are in flight where the learner is never served."""
    config = configured("ppo", "admitted", 5, eta)
    most = [max(one.in_flight for one in ran(config, order)[0].began) for order in range(20)]
    assert max(most) == config.rule.window == (eta + 1) * config.round_chunks


def test_an_admitted_actor_is_given_credit_for_a_batch_that_a_buffer_gathers():
    """Credit for one fragment at a time would never fill it."""
    config = configured("ppo", "admitted", 5, 3, actors=1, batch_chunks=3, **SMALL)
    for order in range(5):
        history, _ = ran(config, order)
        assert sum(len(took.chunks) for took in history.took) >= 5


@pytest.mark.long(why="every rule in many orders of events")
@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_free_actors_overwrite_what_the_learner_does_not_get_to(algo):
    """The ring is used: in some orders of events the learner is served so seldom that chunks are given up."""
    config, overwritten, held = configured(algo, "free", 2, "auto"), 0, 0
    for order in range(20):
        historian, reports = Historian(), []

        def on_message(message, reports=reports):
            reports += [message] if isinstance(message, Report) else []
            return "steps" if isinstance(message, Done) else None

        lockstep.run(config, CARTPOLE(), on_message, order, historian)
        counters = next(one.counters for one in reports if one.role.startswith("learner"))
        overwritten += counters["chunks_overwritten"]
        held = max(held, *historian.history.held.values())
        assert counters["chunks_lost"] == 0
    assert overwritten > 0
    assert held == config.chunk_slots - 2, "no more is given up than has to be"


def shares(config, order):
    """A run in lockstep, where some roles are served less often: the rows that each actor gave to each round."""
    given = []

    def watch(role, events, effects):
        for effect in effects:
            if isinstance(effect, Work) and isinstance(effect.argument, Update):
                rows = dict.fromkeys(range(config.actors), 0)
                for chunk in effect.argument.chunks:
                    rows[chunk.producer] += chunk.count
                given.append(rows)

    lockstep.run(config, CARTPOLE(), lambda m: "steps" if isinstance(m, Done) else None, order, watch)
    return given


def test_a_ring_is_looked_at_where_chunks_arrived_and_nowhere_else():
    ring, looked = configured("ppo", "free", 2, "auto").rule, []

    class Seen(Waiting):
        def in_arena(self, arena):
            looked.append(arena)
            return super().in_arena(arena)

    made = [ChunkHeader(producer, n, 0, 0, 8, 0, 0, SlotRef(producer, n)) for n in range(9) for producer in range(100)]
    first = next(chunk for chunk in made if chunk.producer == 3)
    pending = Seen(chunk for chunk in made if chunk is not first and (chunk.sequence == 0 or chunk.producer in (3, 7)))
    surplus = 9 - (ring.facts.slots - ROOM)
    assert surplus > 0
    found = ring.given_up(pending, Waiting([first]), [7, 3])
    assert [(one.producer, one.sequence) for one in found] == [
        *((7, n) for n in range(surplus)),
        *((3, n) for n in range(1, 1 + surplus)),
    ]
    assert looked == [7, 3]


@pytest.mark.long(why="every rule in many orders of events")
def test_a_quota_free_round_takes_what_each_actor_has():
    data = {field: getattr(MADE["ppo"], field) for field in MADE["ppo"].__struct_fields__}
    config = TrainConfig(**data | LONG["ppo"] | {"discipline": "quota-free", "stop_steps": 3840})
    given = [rows for order in range(12) for rows in shares(config, order)]
    whole = config.chunk_samples
    assert all(min(rows.values()) >= config.envs_per_actor for rows in given), "each actor answers with a step at least"
    assert any(min(rows.values()) < whole for rows in given), "a slow actor gives less than a fragment"
    assert any(max(rows.values()) > whole for rows in given), "a fast one gives more"
    assert all(sum(rows.values()) >= config.rule.whole * whole for rows in given)


def test_a_quota_free_round_can_take_all_memory_of_the_actors_and_no_more():
    config = configured("ppo", "quota-free", 4, "auto")
    sizes = {len(took.chunks) for order in range(12) for took in ran(config, order)[0].took}
    assert config.rule.largest_round == 12
    assert config.round_chunks < max(sizes) <= 12


def test_a_rule_that_is_chosen_may_have_the_largest_rounds_of_those_that_fit():
    sizes = [configured(algo, "auto", 4, "auto").auto.largest_round for algo in ("ppo", "dqn")]
    assert sizes == [12, MADE["dqn"].round_chunks]


def test_a_quota_free_run_keeps_to_its_budget():
    for order in range(30):
        reports = []

        def on_message(message, reports=reports):
            reports += [message] if isinstance(message, Report) else []
            return "steps" if isinstance(message, Done) else None

        config = configured("ppo", "quota-free", 4, "auto")
        lockstep.run(config, CARTPOLE(), on_message, order, None)
        steps = next(one.counters["steps"] for one in reports if one.role.startswith("learner"))
        # A round that came too large for what was left is not trained on.
        largest = config.actors * config.chunk_slots * config.chunk_samples
        assert config.stop_steps - largest < steps <= config.stop_steps


def test_a_quota_free_round_needs_slots():
    with pytest.raises(ConfigError, match=r"chunk_slots 2: 3 actors .* before the 9 fragments .* raise it to 4 or more"):
        TrainConfig(**OF, ppo=PPO, chunk_slots=2, discipline={"name": "quota-free", "whole": 9}).rule.check()
    with pytest.raises(ConfigError, match="not for a replay"):
        configured("dqn", "quota-free", 3, "auto").rule.check()


def test_a_ring_needs_slots():
    with pytest.raises(ConfigError, match="chunk_slots 5: under discipline 'free' an actor needs 6 slots"):
        TrainConfig(**OF, ppo=PPO, chunk_slots=5, discipline="free").rule.check()


def test_a_streamed_round_is_the_whole_round():
    """One optimizer step on accumulated gradients is that on the whole batch, but for the order in which floats are added."""
    round_steps, whole = configured("impala", "stream", 3, "auto").round_steps, []
    for rounds, tolerance in ((1, 1e-6), (8, 1e-4)):
        steps = rounds * round_steps
        ended = [
            np.frombuffer(ran(stopped(configured("impala", name, 3, "auto"), steps), order)[1], "<f4")
            for name, order in (("strict", None), ("stream", None), ("stream", 1), ("stream", 2))
        ]
        for weights in ended[1:]:
            np.testing.assert_allclose(weights, ended[0], atol=tolerance)
        whole.append(ended[0])
    assert abs(whole[1] - whole[0]).max() > 1e-3, "rounds change weights by far more than that"


def stopped(config, steps):
    return TrainConfig(**{field: getattr(config, field) for field in config.__struct_fields__} | {"stop_steps": steps})


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_streaming_learner_works_before_the_last_chunk_is_there(ahead):
    config = configured("impala", "stream", 3, ahead)
    parts, behind = [], set()
    for order in range(10):
        history, _ = ran(config, order)
        parts += [len(took.chunks) for took in history.took]
        behind |= {chunk.behind for took in history.took for chunk in took.chunks}
    assert min(parts) < config.actors, "some round was trained on in parts"
    assert behind == set(range(ahead + 1)), "actors used what they were allowed"


def test_streaming_is_for_one_optimizer_step_a_round():
    with pytest.raises(ConfigError, match="one optimizer step a round"):
        configured("ppo", "stream", 3, "auto").rule.check()


def test_only_interruptible_admission_renews_fragments():
    assert configured("ppo", "admitted-interruptible", 3, 1).rule.when_weights_wait == "renew"
    assert configured("ppo", "admitted", 3, 1).rule.when_weights_wait == "finish"


def test_admission_refuses_what_could_never_begin():
    rule = TrainConfig(**OF, ppo=PPO, batch_chunks=2, discipline={"name": "admitted", "eta": 0}).rule
    with pytest.raises(ConfigError, match=r"discipline\.eta 0: 3 chunks may be in flight, and 3 actors .* need 4"):
        rule.check()
    with pytest.raises(ConfigError, match="'admitted' is for algorithms that train on each chunk once"):
        configured("dqn", "admitted", 3, 1).rule.check()


def test_the_disciplines_differ():
    weights = [ran(configured("ppo", name, 2, "auto"), None)[1] for name in ("strict", "exactly-one-round")]
    assert weights[0] != weights[1]
    history, _ = ran(configured("ppo", "relaxed", 5, "auto"), 7)
    strict = configured("ppo", "strict", 2, "auto").rule
    assert any(list(law.broken(history, strict)) for law in strict.laws)


@pytest.mark.long(why="whole runs of real processes")
def test_reactors_with_a_replay_are_the_same_run_in_processes_whatever_they_are_held_up_by():
    config = configured("dqn", "reactor", 3, "auto")
    data = {field: getattr(config, field) for field in config.__struct_fields__}
    waits = SimulatorConfig(step_seconds=0.002, distribution="pareto", alpha=1.5, spread=4.0)
    alone = train(TrainConfig(**data | {"world": "lockstep"})).weights
    for more in ({}, {"simulator": waits}):
        assert np.array_equal(train(TrainConfig(**data | more)).weights, alone)


@pytest.mark.long(why="whole runs of real processes")
def test_exactly_one_round_is_the_same_run_in_processes_whatever_they_are_held_up_by():
    config = configured("ppo", "exactly-one-round", 2, "auto")
    data = {field: getattr(config, field) for field in config.__struct_fields__}
    waits = SimulatorConfig(step_seconds=0.002, distribution="pareto", alpha=1.5, spread=4.0)
    alone = train(TrainConfig(**data | {"world": "lockstep"})).weights
    for more in ({}, {"simulator": waits}):
        result = train(TrainConfig(**data | more))
        assert np.array_equal(result.weights, alone)
        ages = next(r for r in result.reports if r.role.startswith("learner")).histograms["age_rounds"]
        # Chunks of the first round are made by the weights that it trains.
        assert ages == {0: 3, 1: 3 * (config.stop_steps // config.round_steps - 1)}


def history(*behind, begun=(), rounds=5):
    took = [Took("learner", rounds, tuple(Used(n, 0, lag) for n, lag in enumerate(behind)))]
    return History([Began("actor", one, heard) for one, heard in begun], took)


def test_laws_say_what_breaks_them():
    rule = configured("ppo", "strict", 2, "auto").rule

    def broken(law, told):
        return len(list(law.broken(told, rule)))

    assert (broken(lag_at_most(0), history(0, 1)), broken(lag_at_most(1), history(0, 1))) == (1, 0)
    assert (broken(lag_exactly(1), history(0, 1, 2)), broken(lag_exactly(1), history(0, 0, rounds=0))) == (2, 0)
    assert broken(waits_for_weights(1), history(begun=[(0, 1), (1, 1), (1, 2)])) == 1
    assert broken(waits_for_weights(2), history(begun=[(1, 1), (2, 1)])) == 1
    ring = configured("ppo", "free", 2, "auto").rule
    assert [len(list(leaves_slots(2).broken(History(held={"learner": n}), ring))) for n in (4, 5)] == [0, 1]
    eager = configured("ppo", "admitted", 3, 1).rule
    flying = History([Began("actor", 0, 1, in_flight) for in_flight in (5, 6, 7)], [])
    assert len(list(in_flight_within.broken(flying, eager))) == 1
    assert broken(in_flight_within, flying) == 0, "strict has no window"
    twice = history(0, 0)
    twice.took *= 2
    assert (broken(each_chunk_once, twice), broken(each_chunk_once, history(0, 0))) == (2, 0)
    last = [Used(n, 0, 0, last=True) for n in (0, 1, 2)]
    for chunks, wrong in ((last, 0), ([*last, Used(0, 1, 0)], 0), (last[:2], 1), ([*last, last[0]], 1)):
        assert broken(each_hands_over_once, History([], [Took("learner", 5, tuple(chunks))])) == wrong
    handed = History([Began("actor", 3, heard, handed=1) for heard in (1, 2)], [])
    assert broken(nothing_after_handing_over, handed) == 1
    assert [broken(rounds_within_memory, History([], [Took("learner", 5, last[:1] * n)])) for n in (6, 7)] == [0, 1]
    tags = {
        0: [[(0, 0), (1, 0), (2, 0)], [(2, 1), (0, 1), (1, 1)]],
        1: [[(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 1), (2, 0)]],
        2: [[(0, 0), (1, 0)], [(2, 0)]],
    }
    for wrong, taken in tags.items():
        told = History([], [Took("learner", n, tuple(Used(*one, 0) for one in tag)) for n, tag in enumerate(taken)])
        assert broken(whole_tags_in_turn, told) == wrong
        assert broken(in_order_of_producers, told) == (wrong == 0)
    scheduled = configured("ppo", "periodic", 3, 3).rule
    given = [Published("learner", Unpublished(updates)) for updates in (3, 4, 5)]
    begun = [Took("learner", 5, (), Unpublished(updates)) for updates in (0, 3, 4)]
    assert len(list(weights_on_schedule.broken(History([], begun, given), scheduled))) == 2
    parts = History([], [Took("learner", 5, (Used(n, 0, 0),)) for n in (0, 2, 1)])
    assert broken(one_of_each_in_a_round, parts) == 0, "a round may be taken in parts"
    one_of_each = next(law for law in rule.laws if "every actor" in law.text)
    assert (broken(one_of_each, history(0, 0)), broken(one_of_each, history(0, 0, 0))) == (1, 0)
