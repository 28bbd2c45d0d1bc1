"""Several learners and a Root, in both worlds."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from tianji.algorithms import algorithm
from tianji.config import DQNConfig, NetworkConfig
from tianji.environments.making import describe
from tianji.messages import Done, Report, SlotRef, Snapshot
from tianji.roles.actor import Rollout
from tianji.run.training import train
from tianji.topology import chunk_layout
from tianji.worlds import lockstep
from tianji.worlds.sampler import Sampler

CARTPOLE = describe("CartPole-v1")


def dqn(small, **more):
    return small(
        algo="dqn",
        actors=1,
        envs_per_actor=1,
        network=NetworkConfig(kind="mlp-q", hidden=(16,)),
        dqn=DQNConfig(train_every_steps=64, updates=8, batch_size=16, learning_starts=128, epsilon_steps=1000),
        **more,
    )


def run(config, order_seed=None):
    """Everything that roles heard and did, the snapshots and the reports of a lockstep run."""
    trace, snapshots, reports, done = [], [], {}, []

    def on_message(message):
        match message:
            case Snapshot():
                snapshots.append((message.version, message.steps, message.weights))
            case Report():
                reports[message.role] = message
            case Done():
                done.append(message)
                return "steps" if len(done) == config.groups else None
        return None

    def note(role, events, effects):
        trace.append(repr((role, events, effects)))

    lockstep.run(config, CARTPOLE, on_message, order_seed, note)
    return trace, snapshots, reports


@pytest.mark.long(why="whole runs, again and again")
@pytest.mark.parametrize("kind", ["ppo", "relaxed", "impala", "dqn", "two groups of dqn", "two groups of ppo"])
def test_lockstep_repeats_every_event_and_every_bit(small, kind):
    config = {
        "ppo": small(),
        "relaxed": small(discipline="relaxed"),
        "impala": small(algo="impala"),
        "dqn": dqn(small, chunk_slots=4),
        "two groups of dqn": dqn(small, chunk_slots=4, groups=2),
        "two groups of ppo": small(groups=2),
    }[kind]
    first, second = run(config), run(config)
    assert len(first[0]) > 50
    # pytest takes minutes to show how two runs differ, so it is told only whether they do.
    same_events, same_policies = first[0] == second[0], first[1] == second[1]
    assert same_events, "what roles heard and did"
    assert same_policies
    other = run(msgspec.structs.replace(config, seed=1))
    assert other[1] != first[1]


def test_a_slow_step_changes_nothing_in_lockstep(small, monkeypatch):
    """Whatever world the configuration names, for a busy machine makes any step slow."""
    config = small(discipline="relaxed")
    events, policies, _ = run(config)
    monkeypatch.setattr("tianji.worlds.sampler.SLOW_NS", 0)
    same = run(config)[:2] == (events, policies)
    assert same


def test_a_root_above_one_group_changes_nothing_that_is_learned(small):
    """Strict or not, the mean of one model is that model; without a Root the run is the same to the last bit."""
    for config in (
        small(),
        small(discipline="relaxed"),
        small(discipline="relaxed", actors=4, envs_per_actor=2),
        small(algo="impala"),
        dqn(small, chunk_slots=1),
        dqn(small, chunk_slots=4),
    ):
        alone, with_root = run(config), run(msgspec.structs.replace(config, root=True))
        same_policies = alone[1] == with_root[1]
        assert same_policies
        assert alone[2]["learner g0"].histograms == with_root[2]["learner g0"].histograms
        learner = with_root[2]["learner g0"].counters
        # The answer to the last push may come when the learner has ended.
        assert 0 <= with_root[2]["root"].counters["means_published"] - learner["means_adopted"] <= 1
        assert learner["means_adopted"] > 5
        assert learner["optimizer_steps"] == alone[2]["learner g0"].counters["optimizer_steps"]


def test_strict_groups_agree_to_the_bit_and_are_the_mean_of_what_each_learned(small):
    config = small(groups=2, actors=1, envs_per_actor=4, stop_steps=2 * 64 * 8)
    _, snapshots, reports = run(config)
    learners = [reports[f"learner g{g}"].counters for g in range(2)]
    assert [c["steps"] for c in learners] == [512, 512]
    assert [c["means_adopted"] for c in learners] == [8, 8]
    assert [c["staleness_max_versions"] for c in learners] == [0, 0]
    assert snapshots[-1][1] == 1024, "environment steps of both"
    # Independently: two learners by hand on the same experience are averaged after one round.
    one = msgspec.structs.replace(config, stop_steps=2 * 64)
    averaged = np.frombuffer(run(one)[1][-1][2], "<f4")
    singles = []
    for g in range(2):
        layout = chunk_layout(one, CARTPOLE)
        views = layout.views(bytearray(layout.capacity_bytes))
        made = algorithm.make_algorithm(one, CARTPOLE, g)
        sampler = Sampler(one, CARTPOLE, layout, lambda slot, views=views: views, g, lambda: 0)
        sampler.weights()[:] = made.updater.weights()
        sampler.run(Rollout(SlotRef(0, 0)))
        made.update([views], 0)
        singles.append(made.updater.weights().copy())
        sampler.close()
    assert not np.array_equal(singles[0], singles[1])
    assert np.allclose(averaged, (singles[0] + singles[1]) / 2, atol=1e-7)


@pytest.mark.long(why="whole runs, again and again")
@pytest.mark.parametrize("kind", ["ppo", "relaxed", "dqn"])
@pytest.mark.parametrize("groups", [2, 4])
def test_snapshots_are_as_near_to_each_other_as_with_one_group(small, kind, groups):
    """Steps of other groups become known with a mean. A multiple that is passed by that is not overlooked."""
    more = {"groups": groups, "snapshot_every_steps": 512 * groups, "stop_steps": 8192 * groups}
    config = dqn(small, **more) if kind == "dqn" else small(actors=1, **more, **({} if kind == "ppo" else {"discipline": kind}))
    for order in (None, 1, 2):
        _, snapshots, reports = run(config, order)
        steps = [snapshot[1] for snapshot in snapshots]
        # Between two means, each group makes a round; off policy, fast groups may make more.
        known = config.round_steps * groups * (1 if kind == "ppo" else 3)
        assert max(late - early for early, late in pairwise(steps)) <= config.snapshot_every_steps + known
        total = sum(report.counters["steps"] for role, report in reports.items() if role.startswith("learner"))
        assert len(steps) >= total // (config.snapshot_every_steps + known)


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_two_groups_and_a_root_as_processes(small, algo):
    # Off policy a group does not wait for a mean: it must train for long enough that one comes.
    config = small(groups=2, actors=1) if algo == "ppo" else dqn(small, groups=2, stop_steps=16_384)
    messages = []
    result = train(config, messages.append)
    reports = {m.role: m for m in messages if isinstance(m, Report)}
    expected = (
        {"root"} | {f"{kind} g{g}" for kind in ("learner", "buffer") for g in range(2)} | {f"actor g{g}.a0" for g in range(2)}
    )
    assert set(reports) == expected
    assert result.outcome == "steps"
    if algo == "ppo":
        assert result.steps == config.stop_steps
    else:
        # They share the budget: no more is left of it than a round, and what was done while models travelled comes on top.
        assert config.stop_steps - config.round_steps < result.steps < 2 * config.stop_steps
    for g in range(2):
        assert reports[f"learner g{g}"].counters["means_adopted"] > 0
        assert reports[f"learner g{g}"].counters["chunks_lost"] == 0
    if algo == "ppo":
        lock = train(msgspec.structs.replace(config, world="lockstep"))
        assert np.array_equal(lock.weights, result.weights), "strict groups do not depend on timing"


def test_the_bound_holds_for_every_chunk_and_none_is_trained_on_twice(small):
    two_rounds = {"name": "relaxed", "lag_rounds": 2}
    for order in (None, 1, 2, 3):
        for config in (
            small(discipline="relaxed", chunk_slots=4),
            small(algo="impala", chunk_slots=4, discipline=two_rounds),
        ):
            _, _, reports = run(config, order)
            learner = reports["learner g0"]
            bound = config.rule.bound
            assert learner.counters["age_max_rounds"] <= bound
            assert max(learner.histograms["age_rounds"]) <= bound
            # Every chunk that was trained on is another one.
            used = sum(learner.histograms["age_versions"].values())
            assert (
                used * config.chunk_samples == learner.counters["steps"] == learner.counters["samples_consumed"] / config.reuse
            )
            admitted = learner.counters["samples_admitted"]
            assert learner.counters["steps"] <= admitted == learner.counters["samples_inserted"]


@pytest.mark.parametrize("more", [{}, {"root": True}, {"groups": 2, "actors": 1}])
@pytest.mark.parametrize("algo", [{"discipline": "relaxed"}, {"algo": "impala"}])
def test_nothing_is_evicted_where_speeds_are_equal(small, algo, more):
    """A mean that was adopted makes no chunk a round older: with versions for rounds half of all chunks were evicted."""
    _, _, reports = run(small(stop_steps=8192, **algo, **more))
    for name, report in reports.items():
        if name.startswith("learner"):
            assert report.counters["chunks_evicted"] == 0
            assert report.counters["chunks_arrived"] > 20


def test_groups_draw_different_numbers(small):
    config = small(groups=2)
    first, second = (algorithm.make_algorithm(config, CARTPOLE, g) for g in range(2))
    assert np.array_equal(first.updater.weights(), second.updater.weights())
    assert first._rng.integers(2**63) != second._rng.integers(2**63)
    first, second = (algorithm.make_algorithm(dqn(small, groups=2), CARTPOLE, g) for g in range(2))
    assert first._rng.integers(2**63) != second._rng.integers(2**63)
