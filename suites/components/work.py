"""Work for parts that are measured alone: experience to learn from, and rounds of updates on it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from msgspec.structs import replace

from tianji.algorithms import algorithm
from tianji.algorithms.replay import Experience
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.messages import SlotRef
from tianji.roles.actor import Rollout
from tianji.topology import chunk_layout
from tianji.worlds.sampler import Sampler

ENDLESS = 1 << 50
"""Environment steps: no run gets there."""
FROZEN = 1e-12
"""A learning rate: updates are computed in full and change nothing, so the policy is the same throughout. Otherwise episodes
would grow longer while the system learns, and environments be reset less often."""
RECORDED = 2
"""Chunks of each actor that are recorded for learners."""


def frozen(config: TrainConfig) -> TrainConfig:
    """A configuration that learns nothing and never ends; actions are those of PPO's first policy, or at random."""
    return replace(
        config,
        stop_steps=ENDLESS,
        stop_seconds=None,
        ppo=replace(config.ppo, learning_rate=FROZEN, learning_rate_schedule="constant"),
        dqn=replace(config.dqn, learning_rate=FROZEN, epsilon_start=1.0, epsilon_end=1.0),
        sac=replace(config.sac, learning_rate=FROZEN),
        td3=replace(config.td3, learning_rate=FROZEN),
    )


@dataclass(frozen=True)
class Recorded:
    """A chunk as an actor made it, with the numbers that its header needs."""

    memory: bytearray
    count: int
    ragged_rows: int
    size_bytes: int


def record(config: TrainConfig, describe: EnvDescription, actor: int) -> list[Recorded]:
    """The first chunks of this actor, under the initial policy."""
    layout = chunk_layout(config, describe)
    memory = [bytearray(layout.capacity_bytes) for _ in range(RECORDED)]
    sampler = Sampler(config, describe, layout, lambda ref: layout.views(memory[ref.slot]), actor, time.monotonic_ns)
    try:
        sampler.weights()[:] = sampler.network.initialise(config.seed)[: sampler.network.acting]
        done = [sampler.run(Rollout(SlotRef(actor, k))) for k in range(RECORDED)]
    finally:
        sampler.close()
    return [Recorded(memory[d.slot.slot], d.count, d.ragged_rows, d.size_bytes) for d in done]


class Learning:
    """Rounds of updates, on chunks that lie in memory.

    A round of DQN inserts the chunk that pays for it before it trains, as the learner does.
    """

    def __init__(self, config: TrainConfig, describe: EnvDescription) -> None:
        self._config, self._rounds = config, 0
        self.algorithm = algorithm.make_algorithm(config, describe)
        layout = chunk_layout(config, describe)
        self._actors = [
            [layout.views(chunk.memory) for chunk in record(config, describe, actor)] for actor in range(config.actors)
        ]
        if self.algorithm.replays:
            # Until there is enough to learn from.
            while not self.round():
                pass

    def round(self) -> int:
        """One round; returns its optimizer steps."""
        config, number = self._config, self._rounds
        self._rounds += 1
        before = number * config.round_steps
        if not self.algorithm.replays:
            # The learner's chunks are a round old when it gets to them, for sampling goes on meanwhile.
            return self.algorithm.update([chunks[number % RECORDED] for chunks in self._actors], before, stale=True)
        each = config.round_chunks // config.actors
        for sequence in range(number * each, (number + 1) * each):
            self.algorithm.insert(
                [Experience(chunks[sequence % RECORDED], actor, sequence) for actor, chunks in enumerate(self._actors)]
            )
        return self.algorithm.train(before + config.round_steps)
