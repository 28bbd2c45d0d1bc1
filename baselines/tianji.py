"""The reference implementation as a system under test, and the plain synchronous system made of the same code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from baselines.system import Recorder, System, Task
from tianji.config import DQNConfig, PPOConfig, TrainConfig
from tianji.messages import Episodes, FromRole, Report, Snapshot, Started
from tianji.train import train

if TYPE_CHECKING:
    from baselines.certificate import Evidence, Frozen


class SameCode(System):
    """Runs `tianji.train` with a configuration of its own."""

    def available(self) -> str | None:
        return None

    def deviations(self, task: Task) -> list[str]:
        return []

    def config(self, task: Task) -> TrainConfig:
        """The task in TianJi's terms."""
        raise NotImplementedError

    def settings(self, task: Task) -> dict[str, Any]:
        settings: dict[str, Any] = msgspec.to_builtins(self.config(task))
        return settings

    def certify(self, frozen: Frozen) -> Evidence:
        from baselines import samecode

        return samecode.evidence(frozen)

    def train(self, task: Task, recorder: Recorder) -> None:
        train(self.config(task), Listener(recorder))

    def _config(self, task: Task, *, actors: int, buffer: bool, chunk_slots: int) -> TrainConfig:
        w = task.workload
        return TrainConfig(
            env=w.env,
            algo=w.algo,
            seed=task.seed,
            actors=actors,
            envs_per_actor=w.environments // actors,
            buffer=buffer,
            chunk_slots=chunk_slots,
            network=w.network,
            ppo=w.ppo or PPOConfig(),
            dqn=w.dqn or DQNConfig(),
            horizon_steps=w.horizon_steps,
            stop_steps=w.budget_steps,
            stop_seconds=w.budget_seconds,
            snapshot_every_steps=w.snapshot_every_steps,
        )


class Sync(SameCode):
    """One actor process and the learner, each waiting for the other: what relaxing dependencies is measured against."""

    name = "sync"
    title = "synchronous (same code)"

    def config(self, task: Task) -> TrainConfig:
        return self._config(task, actors=1, buffer=False, chunk_slots=1)


class TianJi(SameCode):
    """Actors, buffer and learner as separate processes.

    On-policy training waits for weights (strict); off policy the actor fills its next fragment while the learner trains,
    and two slots of credit keep it no further ahead.
    """

    name = "tianji"
    title = "TianJi"

    def config(self, task: Task) -> TrainConfig:
        return self._config(task, actors=actors_for(task), buffer=True, chunk_slots=2)


def actors_for(task: Task) -> int:
    """As many actors as cores, if the environments divide among them: while actors sample, an on-policy learner waits."""
    return max(n for n in range(1, len(task.cores) + 1) if task.workload.environments % n == 0)


class Listener:
    """Passes on what the roles report."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._steps: dict[str, int] = {}

    def __call__(self, message: FromRole) -> None:
        match message:
            case Started(role=role, at_ns=at) if role.startswith(("actor", "explorer")):
                self.recorder.first_step(at)
            case Episodes(role=role, episodes=episodes):
                others = sum(steps for name, steps in self._steps.items() if name != role)
                for e in episodes:
                    self.recorder.episode(e.at_ns, e.episode_return, e.length, others + e.actor_steps)
                self._steps[role] = message.actor_steps
            case Snapshot(version=version, steps=steps, at_ns=at, weights=weights):
                self.recorder.snapshot(at, steps, version, np.frombuffer(weights, "<f4"))
            case Report(role=role):
                self.recorder.process(role, message.busy_s, message.wait_s, message.cpu_s, message.peak_rss_bytes)
                for name, value in message.counters.items():
                    self.recorder.counter(f"{role.split()[0]}_{name}", value)
