"""The same roles in both worlds: same results, and orderly ends."""

import functools
import os
import signal

import numpy as np
import psutil
import pytest

from programs.cli import ConfigError
from tianji.config import DQNConfig, NetworkConfig
from tianji.environments.making import describe
from tianji.launch.events import Restarted, RoleFailed
from tianji.messages import ACTOR_STEPS, Episode, Episodes, Progress, Report, Saved, Snapshot, Started
from tianji.run.training import train
from tianji.run.watch import Watch
from tianji.worlds import lockstep

CARTPOLE = describe("CartPole-v1")


def weights_of(config, order_seed):
    snapshots = []
    lockstep.run(config, CARTPOLE, lambda m: snapshots.append(m) if isinstance(m, Snapshot) else _stop(m), order_seed)
    return snapshots


def _stop(message):
    return "steps" if type(message).__name__ == "Done" else None


def test_lockstep_repeats_to_the_bit_whoever_is_served_first(small):
    runs = [weights_of(small(), order) for order in (None, 1, 2)]
    assert [s.steps for s in runs[0]] == [0, 512, 1024, 1536, 2048]
    for run in runs[1:]:
        assert [(s.version, s.steps, s.weights) for s in run] == [(s.version, s.steps, s.weights) for s in runs[0]]


def test_the_real_world_equals_lockstep_and_the_synchronous_system(small):
    lock = train(small(world="lockstep"))
    real = train(small())
    sync = train(small(actors=1, envs_per_actor=8, buffer=False))
    assert lock.steps == real.steps == sync.steps == 2048
    assert lock.version == real.version == sync.version == 16 * 2 * 4
    assert np.array_equal(lock.weights, real.weights)
    assert np.array_equal(real.weights, sync.weights)


@pytest.mark.long(why="whole runs, again and again")
@pytest.mark.parametrize("placement", ["apart", "buffer", "actor"])
def test_roles_that_share_a_process_train_the_same(small, placement):
    names, messages = set(), []

    def look(message):
        messages.append(message)
        if isinstance(message, Started):
            names.update(child.name() for child in psutil.Process().children())

    result = train(small(placement=placement, discipline="strict"), look)
    assert np.array_equal(result.weights, train(small(world="lockstep", discipline="strict")).weights)
    found = {name for name in names if name.startswith("tj-")}
    gone = {"apart": set(), "buffer": {"tj-buffer g0"}, "actor": {"tj-buffer g0", "tj-actor g0.a0"}}[placement]
    assert found == {"tj-learner g0", "tj-buffer g0", "tj-actor g0.a0", "tj-actor g0.a1"} - gone
    reports = {m.role: m for m in messages if isinstance(m, Report)}
    assert set(reports) == {"learner g0", "buffer g0", "actor g0.a0", "actor g0.a1"}
    # A process is accounted for once.
    assert {role for role, report in reports.items() if not report.cpu_s} == {name.removeprefix("tj-") for name in gone}
    assert reports["buffer g0"].counters["chunks_forwarded"] == 2 * reports["learner g0"].counters["steps"] / 128


def test_durations_of_lockstep_are_counts_that_repeat(small):
    def told():
        found = []
        lockstep.run(small(groups=2), CARTPOLE, lambda m: found.append(m) if isinstance(m, Report) else _stop(m))
        return {m.role: (m.histograms, m.counters) for m in found}

    first = told()
    assert first == told()
    assert {name for histograms, _ in first.values() for name in histograms if name.startswith("took_")} == {
        "took_adoption",
        "took_fragment",
        "took_mean",
        "took_round",
    }


def test_another_seed_gives_another_run(small):
    assert not np.array_equal(train(small(world="lockstep")).weights, train(small(world="lockstep", seed=1)).weights)


def test_roles_account_for_their_time_and_nothing_is_lost(small):
    messages = []
    result = train(small(placement="apart"), messages.append)
    reports = {m.role: m for m in messages if isinstance(m, Report)}
    assert set(reports) == {"learner g0", "buffer g0", "actor g0.a0", "actor g0.a1"}
    learner, actor = reports["learner g0"], reports["actor g0.a0"]
    assert learner.counters["chunks_lost"] == learner.counters["chunks_duplicated"] == 0
    assert learner.counters["staleness_max_versions"] == 0
    assert learner.counters["samples_consumed_unique"] == result.steps
    assert learner.busy_s["update"] > 0
    assert {"env", "infer", "send"} <= set(actor.busy_s)
    assert actor.wait_s["weights"] > 0
    # 2,048 steps are 32 fragments of 64, and 16 rounds of two of them. The last round's weights may reach an actor before the
    # stop does, so it may make a fragment more.
    assert actor.counters["chunks_produced"] == sum(actor.histograms["took_fragment"].values()) in (16, 17)
    assert sum(learner.histograms["took_round"].values()) == 16
    for report, name in ((actor, "fragment"), (learner, "round")):
        # All the work was done within the processor time since the start.
        assert 0 < report.counters[f"took_{name}_s"] <= report.counters["processor_s"] <= report.cpu_s
    assert sum(1 for m in messages if isinstance(m, Started)) == 3
    assert sum(len(m.episodes) for m in messages if isinstance(m, Episodes)) == result.episodes > 20


def test_stops_at_a_return(small):
    result = train(small(stop_return=1.0, stop_steps=1_000_000))
    assert result.outcome == "return"
    assert result.reached_s is not None
    assert result.reached_s <= result.seconds
    assert result.steps < 100_000


def test_stops_after_seconds_in_both_worlds(small):
    for world in ("real", "lockstep"):
        result = train(small(stop_seconds=0.3, stop_steps=10_000_000, world=world))
        assert result.outcome == "seconds"
        assert result.steps > 0


def test_a_role_that_is_killed_fails_the_run_and_takes_the_others_along(small):
    def kill_an_actor(message):
        if isinstance(message, Episodes):
            for child in psutil.Process().children():
                if child.name() == "tj-actor g0.a1":
                    os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(RoleFailed, match=r"actor g0\.a1 ended with status -9"):
        train(small(stop_steps=10_000_000, restarts=0), kill_an_actor)


def test_roles_name_themselves(small):
    names = set()

    def look(message):
        if isinstance(message, Started):
            names.update(child.name() for child in psutil.Process().children())

    train(small(placement="apart"), look)
    assert {"tj-learner g0", "tj-buffer g0", "tj-actor g0.a0", "tj-actor g0.a1"} <= names


def test_an_interrupt_keeps_what_was_done(small):
    pressed = []

    def interrupt(message):
        if isinstance(message, Snapshot) and message.steps >= 2000 and not pressed:
            pressed.append(message)
            raise KeyboardInterrupt

    result = train(small(stop_steps=10_000_000), interrupt)
    assert result.outcome == "interrupted"
    assert result.steps >= 2000
    assert {r.role for r in result.reports} >= {"learner g0"}


def dqn(small, **more):
    return small(
        algo="dqn",
        actors=1,
        envs_per_actor=1,
        network=NetworkConfig(kind="mlp-q", hidden=(16,), activation="relu"),
        dqn=DQNConfig(train_every_steps=64, updates=8, batch_size=16, learning_starts=128, epsilon_steps=1000),
        **more,
    )


def test_synchronous_dqn_is_the_same_in_both_worlds(small):
    real = train(dqn(small, chunk_slots=1, buffer=False))
    lock = train(dqn(small, chunk_slots=1, buffer=False, world="lockstep"))
    assert real.steps == lock.steps == 2048
    assert real.version == lock.version == (2048 // 64 - 1) * 8
    assert np.array_equal(real.weights, lock.weights)


@pytest.mark.long(why="whole runs of real processes")
def test_dqn_samples_ahead_by_its_credit_and_no_further(small):
    """With k slots a fragment is at most k - 1 training rounds old when it arrives, and the ratio of steps to updates holds."""
    for slots in (1, 2, 4):
        result = train(dqn(small, chunk_slots=slots))
        (learner,) = (r for r in result.reports if r.role.startswith("learner"))
        assert learner.counters["staleness_max_versions"] <= (slots - 1) * 8 + 8 * (slots > 1)
        assert result.version == (2048 // 64 - 1) * 8
        if slots == 1:
            assert learner.counters["staleness_max_versions"] == 0


@pytest.mark.parametrize(
    ("kind", "more", "least"),
    [
        ("dqn", {"send_steps": 4}, 16),
        ("dqn", {"send_steps": 4, "batch_chunks": 3}, 18),
        ("relaxed", {"actors": 4, "batch_chunks": 7}, 3),
        ("relaxed", {"actors": 4, "batch_chunks": 7, "discipline": "one-sided"}, 3),
        ("impala", {"actors": 3, "batch_chunks": 2}, 2),
        ("one-sided dqn", {"send_steps": 4, "batch_chunks": 3}, 3),
    ],
)
def test_slots_that_hold_no_round_are_refused_and_one_more_is_enough(small, kind, more, least):
    made = {
        "dqn": functools.partial(dqn, small),
        "one-sided dqn": functools.partial(dqn, small, discipline="one-sided"),
        "relaxed": functools.partial(small, discipline="relaxed"),
        "impala": functools.partial(small, algo="impala"),
    }[kind]
    with pytest.raises(ConfigError, match=rf"chunk_slots {least - 1}: .* raise it to {least} or more"):
        train(made(chunk_slots=least - 1, **more))
    config = made(chunk_slots=least, world="lockstep", **more)
    result = train(config)
    assert config.stop_steps - result.steps < config.round_steps


def test_slots_that_hold_a_round_of_whole_batches_are_enough(small):
    for gathered in (2, 4):
        config = small(discipline="relaxed", actors=4, batch_chunks=gathered, chunk_slots=1, world="lockstep")
        assert config.stop_steps - train(config).steps < config.round_steps


def test_strict_training_gathers_a_whole_round_or_nothing(small):
    with pytest.raises(ConfigError, match=r"batch_chunks 3: discipline 'strict' passes .* a round of all 4"):
        train(small(actors=4, batch_chunks=3))
    for gathered in (1, 4):
        assert train(small(actors=4, batch_chunks=gathered, chunk_slots=1, world="lockstep")).outcome == "steps"


def test_steps_at_the_mean_are_those_when_the_episode_ended(small):
    """What an actor sampled after it, until it told, does not count; what others told before does."""
    config = small(stop_return=1.0)
    watch = Watch(config, CARTPOLE, None)
    watch(Episodes("actor g0.a0", 700, 10, [Episode(9, 1.0, 9, 300 + i) for i in range(99)]))
    assert watch(Episodes("actor g0.a1", 600, 20, [Episode(19, 1.0, 9, 450), Episode(20, 1.0, 9, 500)])) == "return"
    assert watch.result().reached_steps == 700 + 450


def test_episodes_that_are_played_again_count_once(small):
    """When a learner dies all roles begin again where they were stored: what came after that is played again."""

    def played(number, value):
        return Episodes("actor g0.a0", number, number, [Episode(number, value, 9, number)] * 3)

    watch = Watch(small(), CARTPOLE, None)
    watch(played(100, 1.0))
    watch(Saved("learner g0", 512, 1, 200))
    for _ in range(2):
        watch(played(300, 5.0))
        assert (watch.episodes, list(watch.returns)) == (6, [1.0] * 3 + [5.0] * 3)
        assert watch.actor_steps == {"actor g0.a0": 300}
        watch(Restarted("", "learner g0 ended", 0.25, 400))
        assert (watch.episodes, list(watch.returns)) == (3, [1.0] * 3)
        assert watch.actor_steps == {"actor g0.a0": 100}
    # An actor's successor plays on: nothing is taken back.
    watch(Restarted("actor g0.a0", "it ended", 0.25, 500))
    assert watch.episodes == 3


def test_an_actor_tells_of_its_steps_while_no_episode_ends(small):
    """Its successor goes on from there: epsilon follows them."""
    steps = []

    def look(message):
        if isinstance(message, Progress) and message.role.startswith("actor"):
            steps.append(message.counters[ACTOR_STEPS])
            if len(steps) == 3:
                raise KeyboardInterrupt

    train(small(stop_steps=10_000_000), look)
    assert steps == sorted(steps)
    assert steps[0] > 0


def test_in_lockstep_torch_has_one_thread_and_a_learner_those_that_it_was_given(small):
    """Threads were limited before torch was imported, so that its sums were not those of the real world."""
    import torch

    seen, before = set(), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for given in (None, 2):
            config = small(updater="torch", learner_threads=given, stop_steps=256)

            def look(role, *more):
                seen.add((role, torch.get_num_threads()))

            lockstep.run(config, CARTPOLE, lambda message: getattr(message, "reason", None), trace=look)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    threads = {name: {count for role, count in seen if role == name} for name, _ in seen}
    assert threads["learner g0"] == {1, 2}
    assert threads["actor g0.a0"] == threads["buffer g0"] == {1}
