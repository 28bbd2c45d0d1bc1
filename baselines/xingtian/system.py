"""XingTian's discipline as a system under test: push only, a broker on each node, and its rules for who waits for what.

Everything else is TianJi's own code, from algorithms to messages. So a difference between the two is one of discipline.
"""

from __future__ import annotations

from typing import Any

import msgspec

from baselines.system import Recorder, Task
from baselines.tianji import Listener, SameCode, actors_for
from baselines.workload import Workload
from baselines.xingtian import launch
from baselines.xingtian.abroad import COMPRESS_FROM_BYTES, can_compress
from tianji.config import TrainConfig
from tianji.topology import chunk_layout

SLOTS = 2
"""Fragments of an explorer in flight. Off policy this bounds how far it runs ahead, as it does for TianJi."""


class XingTian(SameCode):
    """Explorers and a broker on each node, and on the first a learner with threads for receiving, sending and training."""

    name = "xingtian"
    title = "XingTian-style"
    compress = True
    """Large bodies between nodes."""

    def unable(self, workload: Workload) -> str | None:
        if workload.normalises:
            return "normalisation is not translated to it"
        return "its learner does not wait" if workload.update_seconds else None

    def unable_on(self, workload: Workload, nodes: int) -> str | None:
        if workload.environments % nodes == 0:
            return None
        return f"{workload.environments} environments cannot be divided evenly among {nodes} nodes"

    def config(self, task: Task) -> TrainConfig:
        # A node of several may have a fraction of a core: one explorer is enough for it.
        actors = actors_for(task) * task.nodes
        return self._config(task, actors=actors, buffer=False, chunk_slots=SLOTS)

    def deviations(self, task: Task) -> list[str]:
        told = [
            "An independent re-implementation of XingTian's discipline (topology, threads, who waits for whom) over TianJi's "
            "algorithms, environments and transport; XingTian itself no longer runs on current stacks.",
            "Of its two modes this is the stronger one: shared memory all the way on a node, no polling sleeps.",
        ]
        if task.nodes > 1:
            told.append(
                "A node whose link is slower than updates is sent the newest weights only, where XingTian queues them all."
            )
        if not self._compresses(task):
            told.append(self._why_uncompressed(task))
        if task.workload.hyperparameters.replays:
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
            "barrier": config.rule.on_policy,
            "compression": "lz4 between nodes" if self._compresses(task) else None,
            "config": msgspec.to_builtins(config),
        }

    def train(self, task: Task, recorder: Recorder) -> None:
        launch.run(self.config(task), Listener(recorder), task.cluster, compress=self._compresses(task))

    def _compresses(self, task: Task) -> bool:
        return self.compress and task.nodes > 1 and self._large(task) and can_compress()

    def _large(self, task: Task) -> bool:
        """Whether a fragment can be as large as what XingTian compresses."""
        config = self.config(task)
        layout = chunk_layout(config, task.workload.describe(), assessed=config.rule.on_policy)
        return layout.capacity_bytes > COMPRESS_FROM_BYTES

    def _why_uncompressed(self, task: Task) -> str:
        if not self._large(task):
            return "Nothing is compressed: XingTian compresses bodies over 1 MiB only, and none here is that large."
        why = "python-lz4 is not installed" if self.compress and task.nodes > 1 else "none leaves its node"
        return f"Nothing is compressed, as XingTian compresses bodies over 1 MiB: {why}."
