"""Interface of a system under test, and the lookup of systems by name.

A system runs in its own host process (`python -m baselines.run`), started by the interpreter that it names. The runner chooses
its process group and cores. The system trains on one workload within a budget and reports events to a `Recorder` when they
happen.

To add a system, subclass `System` and name it in the entry-point group `tianji_bench.systems` of your own package.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from baselines.space import Scalar, Space, of_workload
from baselines.workload import Workload
from programs.registry import Registry
from tianji.launch.node import Cluster
from tianji.settings import paths, replaced

if TYPE_CHECKING:
    from baselines.certificate import Evidence, Frozen


class Task(Struct, frozen=True):
    """One run: a system, its workload, seed and cores."""

    system: str
    workload: Workload
    seed: int
    cores: tuple[int, ...]
    """Processors that all processes of the run share."""
    cluster: Cluster | None = None
    """Nodes over which the run is spread, with at least one group of actors on each. None: this host only."""
    options: dict[str, Scalar] = {}
    """Options that a suite varies besides the workload (see `System.takes`)."""
    stop_at_goal: bool = False
    """Whether the run may end before its budget is used, once it has reached its training return (`baselines.goal`)."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return 1 if self.cluster is None else len(self.cluster.nodes)


class Recorder(Protocol):
    """Receiver of a system's events. Times are `time.monotonic_ns` of this host at the moment of the event."""

    directory: Path
    """Folder for this run alone."""

    @property
    def may_end(self) -> bool:
        """Whether the run may end before its budget is used, because it stops at its goal and has reached it.

        Ask after reporting a snapshot and all episodes so far.
        """

    def first_step(self, at_ns: int) -> None:
        """Record the first environment step of any actor, at which the measured time starts."""

    def episode(self, at_ns: int, episode_return: float, length: int, steps: int) -> None:
        """Record an episode that ended. `steps` counts real transitions of all actors so far, with this episode's."""

    def snapshot(self, at_ns: int, steps: int, version: int, weights: NDArray[np.float32]) -> None:
        """Record a snapshot: the flat vector of the workload's network (see `tianji.algorithms.networks`)."""

    def snapshot_file(self, at_ns: int, steps: int, version: int, file: str) -> None:
        """Record a snapshot that is a file of the system's own, which its player plays (`System.player`).

        Parameters
        ----------
        file
            path below `directory`, such as `snapshots/000001024.zip`. A file named `.safetensors` is a flat vector as
            `tianji.policy.save_policy` writes it, which needs no player.
        """

    def event(self, event: str, ns: int, /, **fields: Any) -> None:
        """Record an event as its line has it (`baselines.recording`)."""

    def progress(self, at_ns: int, role: str, counts: Mapping[str, float]) -> None:
        """Record the progress of a process: totals since its start, by metric.

        Processes that sample report `samples_produced`. Processes that train report `samples_consumed` (rows trained on) and
        `samples_consumed_unique` (each sample once). Throughput is computed from two reports in the steady state, so report at
        least once a second.
        """

    def process(
        self, role: str, busy_s: Mapping[str, float], wait_s: Mapping[str, float], cpu_s: float, peak_rss_bytes: int
    ) -> None:
        """Record the account of time of a process, once, at its end."""

    def counter(self, name: str, value: float, role: str = "") -> None:
        """Record a total of the run, or of one process given by `role`. Names are in snake_case with the unit last."""

    def histogram(self, name: str, counts: Mapping[int, int]) -> None:
        """Record a distribution of whole numbers, as the count of each value. The name has its unit last."""


class System(ABC):
    """A training system under test."""

    name: str
    title: str
    """Name in reports."""

    def interpreter(self) -> list[str]:
        """Command that starts this system's Python. Override it if dependencies clash."""
        return [sys.executable]

    def player(self) -> list[str] | None:
        """Command that plays snapshots that are no flat vectors; None if the system has none.

        The evaluator adds four arguments: the snapshot's file, the environment's id, the seed of the first episode and the
        number of episodes. The others' seeds count up from the first. The command plays one greedy episode from each seed,
        prints their returns as a list in one line of JSON, the last line of its output, and ends with status 0.
        """
        return None

    @abstractmethod
    def available(self) -> str | None:
        """Reason why this system cannot run here, for instance a missing package; None if it can."""

    on_first_node: bool = False
    """Whether the host process does work of the system, and so must be on the first of several nodes. Otherwise it runs
    outside every node's budget."""
    needs_ray: bool = False
    """Whether several nodes must be a Ray cluster."""

    def unable(self, workload: Workload) -> str | None:
        """Reason why this system cannot train on this workload; None if it can."""
        return None

    def unable_on(self, workload: Workload, nodes: int) -> str | None:
        """Reason why it cannot spread this workload over `nodes` nodes; None if it can."""
        return None if nodes == 1 else "it runs on one host"

    def round_steps(self, task: Task) -> int:
        """Most environment steps of a round of updates. Override it if rounds can be larger than the workload's."""
        return task.workload.round_steps

    def takes(self, option: str) -> bool:
        """Whether it supports a task's option of this name. Suites skip systems that do not."""
        return False

    def space(self, task: Task) -> Space:
        """Settings among which `tianji-bench tune` chooses. A system adds its own options, which it must take (`takes`).

        Parameters
        ----------
        task
            one without options: the space is made around the settings of the closed division.
        """
        return of_workload(task.workload)

    def tuned(self, task: Task, options: Mapping[str, Scalar]) -> Task:
        """A task with settings of the open division: keys of the workload are set there, others are the system's options."""
        known = set(paths(Workload))
        common = {key: value for key, value in options.items() if key in known}
        own = {key: value for key, value in options.items() if key not in known}
        return msgspec.structs.replace(task, workload=replaced(task.workload, common), options=task.options | own)

    @abstractmethod
    def deviations(self, task: Task) -> list[str]:
        """Deviations from the matched configuration, in words; empty if there are none."""

    @abstractmethod
    def settings(self, task: Task) -> dict[str, Any]:
        """Translation of the task as plain data: process counts and the system's own option values."""

    def prepare(self, task: Task, recorder: Recorder) -> None:  # noqa: B027 (a system may need none)
        """Set up: import, start daemons, build. This time does not count as training."""

    @abstractmethod
    def train(self, task: Task, recorder: Recorder) -> None:
        """Train until the budget's steps or seconds are used, or the recorder says `may_end`, and not less.

        Report a snapshot before the first update, one every `snapshot_every_steps`, and one at the end, at least.
        """

    def certify(self, frozen: Frozen) -> Evidence | None:
        """Results on frozen weights and data, for the equivalence certificate; None if the system cannot show them."""
        return None

    def stop(self) -> None:  # noqa: B027 (a system may need none)
        """End all processes and free all resources. It is called once, also after a failure."""


SYSTEMS: Registry[type[System]] = Registry(
    "tianji_bench.systems",
    {
        "sync": "baselines.tianji:Sync",
        "sync-one": "baselines.tianji:SyncOne",
        "tianji": "baselines.tianji:TianJi",
        "tianji-apart": "baselines.tianji:Apart",
        "tianji-curve": "baselines.tianji:Encrypted",
        "tianji-fan-in-2": "baselines.tianji:TreeOfTwo",
        "tianji-fan-in-4": "baselines.tianji:TreeOfFour",
        "tianji-one-learner": "baselines.tianji:OneLearner",
        "tianji-admitted-0": "baselines.disciplined:Admitted0",
        "tianji-admitted-1": "baselines.disciplined:Admitted1",
        "tianji-admitted-2": "baselines.disciplined:Admitted2",
        "tianji-admitted-4": "baselines.disciplined:Admitted4",
        "tianji-admitted-8": "baselines.disciplined:Admitted8",
        "tianji-admitted-in-order-0": "baselines.disciplined:InOrder0",
        "tianji-admitted-in-order-1": "baselines.disciplined:InOrder1",
        "tianji-admitted-in-order-2": "baselines.disciplined:InOrder2",
        "tianji-admitted-in-order-4": "baselines.disciplined:InOrder4",
        "tianji-admitted-interruptible-1": "baselines.disciplined:Interruptible1",
        "tianji-as-published": "baselines.tianji:AsPublished",
        "tianji-auto": "baselines.disciplined:Auto",
        "tianji-auto-priced": "baselines.disciplined:AutoPriced",
        "tianji-exactly-one-round": "baselines.disciplined:ExactlyOneRound",
        "tianji-free": "baselines.disciplined:Free",
        "tianji-grouped": "baselines.disciplined:Grouped",
        "tianji-quota-free": "baselines.disciplined:QuotaFree",
        "tianji-reactor": "baselines.disciplined:Reactor",
        "tianji-periodic": "baselines.disciplined:Periodic",
        "tianji-stream": "baselines.disciplined:Stream",
        "tianji-strict": "baselines.disciplined:Strict",
        "tianji-one-sided": "baselines.tianji:OneSided",
        "tianji-relaxed": "baselines.tianji:Relaxed",
        "tianji-unbalanced": "baselines.tianji:Unbalanced",
        "rllib": "baselines.rllib.adapter:RLlib",
        "rllib-appo": "baselines.rllib.asynchronous:RLlibAPPO",
        "rllib-impala": "baselines.rllib.asynchronous:RLlibIMPALA",
        "rllib-multi-learner": "baselines.rllib.multi_learner:MultiLearnerRLlib",
        "rllib-old": "baselines.rllib_old.system:OldRLlib",
        "rllib-unprobed": "baselines.rllib.adapter:UnprobedRLlib",
        "sample-factory": "baselines.sample_factory.system:SampleFactory",
        "sb3": "baselines.sb3.system:StableBaselines3",
        "sb3-threads": "baselines.sb3.system:Threads",
        "sb3-subproc": "baselines.sb3.system:Subproc",
        "sb3-subproc-threads": "baselines.sb3.system:SubprocThreads",
        "sbx": "baselines.sbx.system:SBX",
        "sbx-threads": "baselines.sbx.system:Threads",
        "torchrl": "baselines.torchrl.system:TorchRL",
        "xingtian": "baselines.xingtian.system:XingTian",
    },
    "system",
)


def names() -> list[str]:
    """Names of all systems."""
    return SYSTEMS.names()


def get(name: str) -> System:
    """Get a system by name.

    Raises
    ------
    ConfigError
        if there is none of this name.
    """
    return SYSTEMS.get(name)()
