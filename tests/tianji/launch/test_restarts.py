"""kill -9 in mid-run: the run finishes, nothing is trained on twice, nothing is left; or it ends with its first cause."""

import functools
import os
import re
import signal

import psutil
import pytest

from tianji.config import DQNConfig, NetworkConfig
from tianji.launch.events import Restarted, RoleFailed
from tianji.messages import Progress, Saved, Snapshot
from tianji.run.training import train


def kill(name):
    """Kill the process of a role, and say whether there was one."""
    found = [child.pid for child in psutil.Process().children() if child.name() == f"tj-{name}"]
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return bool(found)


class Killer:
    """Kills each of its victims once, at the first snapshot of so many steps that finds it alive, and keeps what was told."""

    def __init__(self, *victims):
        self.victims = list(victims)
        self.messages = []

    def __call__(self, message):
        self.messages.append(message)
        if isinstance(message, Snapshot) and self.victims and message.steps >= self.victims[0][1] and kill(self.victims[0][0]):
            self.victims.pop(0)


class UntilReplaced:
    """Kills a role's process twice, each time when its successor had a hand in what was trained on; then ends the run."""

    def __init__(self, victim):
        self.victim = victim
        self.kills = 0
        self.told = 0
        """Restarts."""
        self.mark = 4096
        """Steps by which what is trained on has passed the latest successor of a buffer."""

    def __call__(self, message):
        if isinstance(message, Restarted):
            self.told += 1
            self.mark = None
        if not isinstance(message, Progress) or not message.role.startswith("learner") or self.told < self.kills:
            return
        steps = message.counters["steps"]
        if self.mark is None:
            self.mark = steps + 4096
        actor = self.victim.startswith("actor")
        if steps < self.mark or (actor and message.counters["producers_restarted"] < self.kills):
            return
        if self.kills == 2:
            # As Ctrl-C does.
            raise KeyboardInterrupt
        self.kills += kill(self.victim)


def replaying(small, **more):
    return small(
        algo="dqn",
        network=NetworkConfig(kind="mlp-q", hidden=(16,)),
        dqn=DQNConfig(train_every_steps=128, updates=32, batch_size=16, learning_starts=256, epsilon_steps=1000),
        actors=2,
        envs_per_actor=2,
        **more,
    )


@pytest.mark.long(why="processes are ended and started again")
@pytest.mark.parametrize("victim", ["actor g0.a0", "buffer g0"])
@pytest.mark.parametrize("channel", ["shm", "ipc"])
@pytest.mark.parametrize("kind", ["strict", "relaxed", "dqn"])
def test_a_dead_actor_or_buffer_is_replaced(small, kind, channel, victim):
    config = {"strict": small, "relaxed": small, "dqn": lambda **more: replaying(small, **more)}[kind]
    more = {"discipline": "relaxed"} if kind == "relaxed" else {}
    result = train(config(stop_steps=10_000_000, channel=channel, placement="apart", **more), UntilReplaced(victim))
    assert result.outcome == "interrupted"
    # An actor that dies in a call of an environment names it.
    cause = re.escape(f"{victim} ended with status -9 before it had reported")
    cause += r"(; environment CartPole-v1, number [0-3]: its \w+)?"
    assert [r.role for r in result.restarts] == [victim] * 2
    assert [r.cause for r in result.restarts if not re.fullmatch(cause, r.cause)] == []
    reports = {report.role: report for report in result.reports}
    assert reports.keys() == {"learner g0", "buffer g0", "actor g0.a0", "actor g0.a1"}
    learner = reports["learner g0"].counters
    assert result.steps == learner["steps"] > 10_000
    assert learner["chunks_duplicated"] == 0
    assert learner["producers_restarted"] == (2 if victim.startswith("actor") else 0)
    if kind != "dqn":
        # Everything was trained on as often as it should be.
        assert learner["samples_consumed"] == 2 * result.steps


@pytest.mark.long(why="processes are ended and started again")
@pytest.mark.parametrize("kind", ["strict", "relaxed", "impala", "dqn"])
def test_a_dead_learner_goes_on_from_its_last_state(small, kind):
    config = {
        "strict": small,
        "relaxed": functools.partial(small, discipline="relaxed"),
        "impala": functools.partial(small, algo="impala"),
        "dqn": functools.partial(replaying, small),
    }[kind]

    class AfterSaving(Killer):
        saved = 0

        def __call__(self, message):
            self.messages.append(message)
            if isinstance(message, Saved) and message.steps > self.saved and self.victims:
                self.saved = message.steps
                assert kill(self.victims.pop(0))

    killer = AfterSaving("learner g0", "learner g0")
    result = train(config(stop_steps=50_000, checkpoint_seconds=0.2), killer)
    assert result.outcome == "steps"
    assert not killer.victims
    assert [r.role for r in result.restarts] == ["", ""]
    assert all(r.cause == "learner g0 ended with status -9 before it had reported" for r in result.restarts)
    assert 50_000 - result.steps < result.config.round_steps
    (learner,) = (report for report in result.reports if report.role == "learner g0")
    # It counted on: its last life alone made fewer.
    assert learner.counters["steps"] == result.steps
    ratio = learner.counters["consumption_ratio"] / learner.counters["consumption_ratio_target"]
    assert ratio == pytest.approx(1, abs=0.02)


@pytest.mark.long(why="processes are ended and started again")
@pytest.mark.parametrize("victim", ["root", "learner g1"])
def test_groups_go_on_from_what_each_of_them_stored(small, victim):
    stored, killed = set(), []

    def kill_when_all_have_stored(message):
        if isinstance(message, Saved):
            stored.add(message.role)
        if isinstance(message, Snapshot) and len(stored) == 2 and not killed and kill(victim):
            killed.append(message.steps)

    result = train(small(groups=2, stop_steps=65_536, checkpoint_seconds=0.2), kill_when_all_have_stored)
    assert killed
    assert [r.role for r in result.restarts] == [""]
    assert result.outcome == "steps"
    assert 65_536 - result.steps < 2 * result.config.round_steps


def test_a_role_that_dies_once_too_often_ends_the_run_with_the_cause(small):
    killer = Killer(("actor g0.a1", 2048), ("actor g0.a1", 8192))
    with pytest.raises(RoleFailed, match=r"^actor g0\.a1 ended with status -9"):
        train(small(stop_steps=10_000_000, restarts=1), killer)
    assert [m.role for m in killer.messages if isinstance(m, Restarted)] == ["actor g0.a1"]


def test_a_learner_that_dies_before_it_stored_anything_ends_the_run_with_the_cause(small):
    with pytest.raises(RoleFailed, match=r"^learner g0 ended with status -9"):
        train(small(stop_steps=10_000_000, checkpoint_seconds=None), Killer(("learner g0", 512)))
