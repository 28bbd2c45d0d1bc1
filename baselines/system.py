"""The contract: what the runner asks of a system under test, and how a system is found by name.

A system runs in a host process of its own (`python -m baselines.run`), started by the interpreter that it names, in a
process group and on the cores that the runner chose. It trains on one workload within a budget and tells a `Recorder`
what happens, as it happens. To add a system: subclass `System`, and name it in the entry-point group
`tianji_bench.systems` of your own package.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from baselines.workload import Workload
from programs.registry import Registry
from tianji.launch.node import Cluster

if TYPE_CHECKING:
    from baselines.certificate import Evidence, Frozen


Scalar = bool | int | float | str


class Task(Struct, frozen=True):
    """One run: which system, on what, with which seed and cores."""

    system: str
    workload: Workload
    seed: int
    cores: tuple[int, ...]
    """Processors that the run may use, all its processes together."""
    cluster: Cluster | None = None
    """Nodes to spread over, one group of actors or more on each; None: this host is all there is."""
    options: dict[str, Scalar] = {}
    """What a suite varies beside the workload (see `System.takes`)."""
    stop_at_goal: bool = False
    """Whether the run may end before its budget is used, once its training return has been reached (`baselines.goal`)."""

    @property
    def nodes(self) -> int:
        """How many hosts there are."""
        return 1 if self.cluster is None else len(self.cluster.nodes)


class Recorder(Protocol):
    """Where a system tells what happens. Times are `time.monotonic_ns` of this host, taken when it happened."""

    directory: Path
    """A folder of this run's own."""

    @property
    def may_end(self) -> bool:
        """Whether the run may end now, with budget left: it stops at its goal, and the goal has been reached.

        A system asks after it told of a snapshot, when all episodes so far have been told of, too.
        """

    def first_step(self, at_ns: int) -> None:
        """The first environment step of any actor: the measured clock starts."""

    def episode(self, at_ns: int, episode_return: float, length: int, steps: int) -> None:
        """An episode ended; `steps` counts real transitions of all actors so far, this episode's included."""

    def snapshot(self, at_ns: int, steps: int, version: int, weights: NDArray[np.float32]) -> None:
        """A policy was published: the flat vector of the workload's network (see `tianji.algorithms.networks`)."""

    def progress(self, at_ns: int, role: str, counts: Mapping[str, float]) -> None:
        """How far a process is, now and then: totals since its start, by metric.

        `samples_produced` of who samples; `samples_consumed` (rows trained on) and `samples_consumed_unique` (each sample
        once) of who trains. From two of these in the steady state throughput is computed: at least one a second is needed.
        """

    def process(
        self, role: str, busy_s: Mapping[str, float], wait_s: Mapping[str, float], cpu_s: float, peak_rss_bytes: int
    ) -> None:
        """A process accounts for its time, once, at its end."""

    def counter(self, name: str, value: float, role: str = "") -> None:
        """A total of the run, in snake_case with its unit last; of one process alone where there are several alike."""

    def histogram(self, name: str, counts: Mapping[int, int]) -> None:
        """A distribution of whole numbers: how many there were of each value; the name has its unit last."""


class System(ABC):
    """A training system under test."""

    name: str
    title: str
    """As a reader of the report should see it."""

    def interpreter(self) -> list[str]:
        """Command that starts this system's Python: override it where dependencies clash."""
        return [sys.executable]

    @abstractmethod
    def available(self) -> str | None:
        """Why this system cannot run here (a missing package), in a few words; None when it can."""

    on_first_node: bool = False
    """Where there are several nodes: whether the host process does work of the system's own, and so belongs on the first of
    them. Otherwise it stands outside all."""
    needs_ray: bool = False
    """Whether several nodes must be a Ray cluster."""

    def unable(self, workload: Workload) -> str | None:
        """Why this system cannot train on this workload, in a few words; None when it can."""
        return None

    def unable_on(self, workload: Workload, nodes: int) -> str | None:
        """Why it cannot spread this workload over so many nodes, in a few words; None when it can."""
        return None if nodes == 1 else "it runs on one host"

    def takes(self, option: str) -> bool:
        """Whether a task's option of this name means something to it; a suite asks no system for one that does not."""
        return False

    @abstractmethod
    def deviations(self, task: Task) -> list[str]:
        """Where it departs from the matched configuration, in words; empty when nowhere."""

    @abstractmethod
    def settings(self, task: Task) -> dict[str, Any]:
        """How the task was translated: process counts and the system's own option values, as plain data."""

    def prepare(self, task: Task, recorder: Recorder) -> None:  # noqa: B027 (a system may need none)
        """Do what is not training: import, start daemons, build. Counted as set-up."""

    @abstractmethod
    def train(self, task: Task, recorder: Recorder) -> None:
        """Train until the budget's steps or seconds are used, or the recorder says `may_end`; end no sooner.

        At least a snapshot before the first update, one every `snapshot_every_steps`, and one at the end.
        """

    def certify(self, frozen: Frozen) -> Evidence | None:
        """What this system computes from frozen weights and data, for the equivalence certificate; None: it cannot show it."""
        return None

    def stop(self) -> None:  # noqa: B027 (a system may need none)
        """End every process and free everything; called once, also after a failure."""


SYSTEMS: Registry[type[System]] = Registry(
    "tianji_bench.systems",
    {
        "sync": "baselines.tianji:Sync",
        "tianji": "baselines.tianji:TianJi",
        "tianji-curve": "baselines.tianji:Encrypted",
        "tianji-one-learner": "baselines.tianji:OneLearner",
        "tianji-as-published": "baselines.tianji:AsPublished",
        "tianji-one-sided": "baselines.tianji:OneSided",
        "tianji-relaxed": "baselines.tianji:Relaxed",
        "tianji-unbalanced": "baselines.tianji:Unbalanced",
        "rllib": "baselines.rllib.adapter:RLlib",
        "rllib-multi-learner": "baselines.rllib.multi_learner:MultiLearnerRLlib",
        "rllib-unprobed": "baselines.rllib.adapter:UnprobedRLlib",
        "sb3": "baselines.sb3.system:StableBaselines3",
        "xingtian": "baselines.xingtian.system:XingTian",
    },
    "system",
)


def names() -> list[str]:
    """Every system that can be asked for."""
    return SYSTEMS.names()


def get(name: str) -> System:
    """The system of this name.

    Raises
    ------
    ConfigError
        when there is none.
    """
    return SYSTEMS.get(name)()
