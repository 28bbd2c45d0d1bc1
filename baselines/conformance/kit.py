"""The conformance kit: three short trials of a system, and what they show.

One trial uses its steps, one its seconds, and one is asked to stop.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from baselines.conformance import checks, trial
from baselines.conformance.trial import Observation
from baselines.system import System, Task
from baselines.workload import Thresholds, Workload
from programs.cli import ConfigError
from tianji.config import DQNConfig, IMPALAConfig, NetworkConfig, PPOConfig
from tianji.policy import load_policy

PPO = Workload(
    id="counted-ppo",
    title="CartPole that counts its steps",
    env=trial.ENV,
    algo="ppo",
    environments=4,
    network=NetworkConfig(kind="mlp-separate", hidden=(16, 16)),
    ppo=PPOConfig(rollout_steps=32, minibatch_size=64, epochs=2, learning_rate=1e-3, learning_rate_schedule="linear"),
    horizon_steps=4096,
    budget_steps=2048,
    budget_seconds=120.0,
    snapshot_every_steps=512,
    thresholds=Thresholds(training=1e6, evaluated=1e6),
)
DQN = msgspec.structs.replace(
    PPO,
    id="counted-dqn",
    algo="dqn",
    network=NetworkConfig(kind="mlp-q", hidden=(16,), activation="relu"),
    ppo=None,
    dqn=DQNConfig(train_every_steps=64, updates=8, batch_size=16, replay_capacity=1000, learning_starts=256),
)
IMPALA = msgspec.structs.replace(PPO, id="counted-impala", algo="impala", ppo=None, impala=IMPALAConfig(rollout_steps=32))
TWO_ACTORS = msgspec.structs.replace(PPO, id="counted-ppo-two-actors", actors=2)
WORKLOADS = (PPO, DQN, IMPALA, TWO_ACTORS)
"""A system is checked on the first one that it can train on."""
SECONDS = 3.0
"""Budget of the trial that uses its seconds."""
ENDLESS = 10_000_000
"""Steps that no trial takes."""
SNAPSHOTS_BEFORE_STOP = 3
EPISODES = 3


@dataclass(frozen=True)
class Check:
    """One thing that was checked, and why it failed, if it did."""

    name: str
    failed: str | None

    def __str__(self) -> str:
        return f"{self.name}  {'ok' if self.failed is None else f'failed: {self.failed}'}"


def task_for(name: str, system: System) -> Task:
    """The first workload of the kit on which a system can train, as a task.

    A system whose rounds can be larger than the workload's gets as much longer budgets: they are the same number of rounds.

    Raises
    ------
    ConfigError
        if it can train on none.
    """
    for workload in WORKLOADS:
        if system.unable(workload) is None:
            task = Task(name, workload, 1, cores())
            return msgspec.structs.replace(
                task, workload=_longer(workload, -(-system.round_steps(task) // workload.round_steps))
            )
    raise ConfigError(f"system {name}: cannot be checked: {system.unable(PPO)}")


def cores() -> tuple[int, ...]:
    """Half of the cores here, so that the use of others is seen."""
    available = sorted(os.sched_getaffinity(0))
    return tuple(available[: max(1, len(available) // 2)])


def conform(name: str, system: System) -> Iterator[Check]:
    """Check a system, in three trials of some seconds each.

    Raises
    ------
    ConfigError
        if there is no workload for it.
    """
    with tempfile.TemporaryDirectory(prefix="tj-check-") as place:
        trials: list[Observation] = []
        for part in (by_steps, by_seconds, by_request):
            folder = Path(place, part.__name__)
            folder.mkdir()
            seen, found = part(name, system, folder)
            trials.append(seen)
            yield from found
    yield from in_any(trials)


def by_steps(name: str, system: System, folder: Path) -> tuple[Observation, list[Check]]:
    """The trial that uses its steps, and what it shows."""
    task, run = task_for(name, system), folder / "run"
    workload, most = task.workload, system.round_steps(task)
    seen = trial.observe(system, task, folder)
    return seen, [
        Check("end", checks.ends_in_order(seen)),
        Check("steps counted", checks.steps(seen, most)),
        Check("budget of steps", checks.budget_of_steps(seen, workload, most)),
        Check("snapshot before the first update", checks.snapshot_before(seen)),
        Check("snapshot at the end", checks.snapshot_at_end(seen, most)),
        Check("snapshots in order", checks.snapshot_order(seen, run)),
        Check("distance of snapshots", checks.snapshot_distance(seen, workload, most)),
        Check("policies", _policies(seen, system, run)),
    ]


def by_seconds(name: str, system: System, folder: Path) -> tuple[Observation, list[Check]]:
    """The trial that uses its seconds, and what it shows."""
    task = _endless(name, system, SECONDS)
    seen = trial.observe(system, task, folder)
    return seen, [Check("budget of seconds", checks.budget_of_seconds(seen, task.workload))]


def by_request(name: str, system: System, folder: Path) -> tuple[Observation, list[Check]]:
    """The trial that is asked to stop, and what it shows."""
    seen = trial.observe(system, _endless(name, system, PPO.budget_seconds), folder, _enough)
    return seen, [Check("stop request", checks.stop_request(seen))]


def in_any(trials: Sequence[Observation]) -> list[Check]:
    """What holds for every trial."""
    whole = Observation(
        foreign_cores=set().union(*(seen.foreign_cores for seen in trials)),
        processes_left=[process for seen in trials for process in seen.processes_left],
        files_left=[file for seen in trials for file in seen.files_left],
    )
    return [
        Check("cores", checks.cores(whole)),
        Check("processes left behind", checks.processes_left(whole)),
        Check("files left behind", checks.files_left(whole)),
    ]


def _longer(workload: Workload, factor: int) -> Workload:
    return msgspec.structs.replace(
        workload,
        horizon_steps=factor * workload.horizon_steps,
        budget_steps=factor * workload.budget_steps,
        snapshot_every_steps=factor * workload.snapshot_every_steps,
    )


def _endless(name: str, system: System, seconds: float) -> Task:
    task = task_for(name, system)
    workload = msgspec.structs.replace(task.workload, budget_steps=ENDLESS, horizon_steps=ENDLESS, budget_seconds=seconds)
    return msgspec.structs.replace(task, workload=workload)


def _policies(seen: Observation, system: System, run: Path) -> str | None:
    """Snapshots are policies that can be read; a player plays the first and the last, and its returns repeat."""
    snapshots, command = checks.of_kind(seen.events, "snapshot"), system.player()
    for snapshot in snapshots:
        file = run / snapshot["file"]
        try:
            if file.suffix == ".safetensors":
                load_policy(file)
            elif command is None:
                return f"{snapshot['file']} is no flat vector, and the system has no player"
            elif snapshot in (snapshots[0], snapshots[-1]) and not _repeats(command, file):
                return f"its player gives other returns for {snapshot['file']} each time"
        except (ConfigError, ValueError, OSError, subprocess.SubprocessError) as error:
            return f"{snapshot['file']} cannot be played: {error}"
    return None


def _repeats(command: list[str], file: Path) -> bool:
    return trial.played(command, file, EPISODES) == trial.played(command, file, EPISODES)


def _enough(events: trial.Events) -> bool:
    """Whether training is well under way."""
    return len(checks.of_kind(events, "snapshot")) >= SNAPSHOTS_BEFORE_STOP
