"""XingTian's discipline as a system under test: push only, a broker, and XingTian's rules of who waits for what.

Everything else (algorithms, environments, networks, shared memory, messages) is TianJi's own code, so that a
difference between the two is a difference of discipline.
"""

from __future__ import annotations

from typing import Any

import msgspec

from baselines.system import Recorder, Task
from baselines.tianji import Listener, SameCode, actors_for
from baselines.xingtian import launch
from tianji.config import TrainConfig

SLOTS = 2
"""Fragments of an explorer in flight. Off policy this bounds how far it runs ahead, as it does for TianJi."""


class XingTian(SameCode):
    """Explorers, a broker and a learner with threads of its own for receiving, sending and training."""

    name = "xingtian"
    title = "XingTian-style"

    def config(self, task: Task) -> TrainConfig:
        return self._config(task, actors=actors_for(task), buffer=False, chunk_slots=SLOTS)

    def deviations(self, task: Task) -> list[str]:
        told = [
            "An independent re-implementation of XingTian's discipline (topology, threads, who waits for whom) over TianJi's "
            "algorithms, environments and transport; XingTian itself no longer runs on current stacks.",
            "Of its two modes this is the stronger one: shared memory all the way on a host, no polling sleeps.",
            "Nothing is compressed: XingTian compresses bodies over 1 MiB only, and none here is that large.",
        ]
        if task.workload.algo == "dqn":
            told.append(
                "Actions are chosen in the explorer and transitions travel in fragments of one round, weights are pushed "
                "after each round of updates; as shipped, XingTian sends one transition a message and asks a central predictor."
            )
        return told

    def settings(self, task: Task) -> dict[str, Any]:
        config = self.config(task)
        return {
            "explorers": config.actors,
            "envs_per_explorer": config.envs_per_actor,
            "fragment_steps": config.fragment_steps,
            "slots_per_explorer": config.chunk_slots,
            "mode": "steelman",
            "barrier": config.on_policy,
            "compression": None,
            "config": msgspec.to_builtins(config),
        }

    def train(self, task: Task, recorder: Recorder) -> None:
        launch.run(self.config(task), Listener(recorder))
