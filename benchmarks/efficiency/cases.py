"""Cases of the efficiency benchmark: configurations without waiting, experience to learn from, and measurement windows."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from baselines.system import Task
from baselines.tianji import Unbalanced
from suites.components.work import frozen
from suites.session import catalogue
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription

Part = Literal["sampling", "learning", "both"]
Side = Literal["bare", "system"]

WORKLOADS: dict[Part, tuple[str, ...]] = {
    "sampling": ("cartpole-ppo-zoo", "cartpole-dqn-zoo", "lunarlander-ppo"),
    "learning": ("cartpole-ppo-zoo", "cartpole-dqn-zoo", "lunarlander-ppo", "pong84-ppo"),
    # Not lunarlander-ppo: one actor takes several times as long for a round as its updates do, so the learner would wait for
    # samples most of the time, and its share of a bare loop that never waits would say nothing about the system.
    "both": ("cartpole-ppo-zoo", "cartpole-dqn-zoo"),
}
CORES: dict[Part, int] = {"sampling": 1, "learning": 2, "both": 1}
"""Number of cores for which TianJi distributes its environments. One actor samples; the learner gets chunks of all."""
SLOTS = 32
"""Chunks that the actor may have in flight in the part `both`. A learner with a replay returns slots up to two rounds later,
and the actor should not wait for them."""


class Cell(Struct, frozen=True):
    """One measurement in separate processes."""

    part: Part
    side: Side
    workload: str
    cores: int
    seed: int
    warmup_s: float
    seconds: float


def configuration(part: Part, workload: str, cores: int, seed: int) -> tuple[TrainConfig, EnvDescription]:
    """TianJi's configuration of a workload for a measurement, and its environment.

    PPO is relaxed: its actors never wait for weights. Alone, the learner is fed under the two-sided balance, as it is by
    default. With both at once nobody waits for the other: a learner with a replay because the balance is off; PPO's because
    actors run ahead, and what is made too early is evicted.
    """
    w = catalogue.load(workload)
    config = Unbalanced().config(Task(Unbalanced.name, w, seed, tuple(range(cores))))
    discipline = "relaxed" if part == "learning" else "off" if config.hyperparameters.replays else "one-sided"
    measured = replace(
        frozen(config),
        discipline=discipline,
        chunk_slots=SLOTS if part == "both" else config.chunk_slots,
    )
    return measured, w.describe()


class Window:
    """How much was done between two looks: the first after the warm-up, and the first that is `seconds` later than that.

    Both ends are moments at which something was complete, so the rate is exact however much is done at a time.
    """

    def __init__(self, warmup_s: float, seconds: float) -> None:
        self.length_s = warmup_s + seconds
        """Least length, warm-up included."""
        self._warmup_ns, self._length_ns = round(warmup_s * 1e9), round(seconds * 1e9)
        self._seen_ns: int | None = None
        self._begin: tuple[int, int] | None = None
        self._end: tuple[int, int] | None = None
        self.over = False

    def see(self, at_ns: int, total: int) -> bool:
        """Record the total work done by this time. True if the window is over."""
        if self._seen_ns is None:
            self._seen_ns = at_ns
        if self._begin is None:
            if at_ns - self._seen_ns >= self._warmup_ns:
                self._begin = at_ns, total
        elif not self.over:
            self._end = at_ns, total
            self.over = at_ns - self._begin[0] >= self._length_ns
        return self.over

    def result(self) -> dict[str, Any]:
        """Count, seconds and rate; up to the last look where the window is not over.

        Raises
        ------
        RuntimeError
            when less than two things were done in the window.
        """
        if self._begin is None or self._end is None:
            raise RuntimeError("fewer than two pieces of work were done in the window: give it more seconds")
        count, seconds = self._end[1] - self._begin[1], (self._end[0] - self._begin[0]) / 1e9
        return {"count": count, "seconds": seconds, "per_second": count / seconds}
