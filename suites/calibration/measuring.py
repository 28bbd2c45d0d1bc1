"""Short real runs and channels, of which a calibration is made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import msgspec
from msgspec.structs import replace

from baselines.system import Task
from baselines.tianji import TianJi
from baselines.workload import Workload
from suites.calibration.accounts import GROUPS, LARGE_BYTES, SMALL_BYTES, Missing, machine_of, overhead_s, work_of
from suites.records import bundle, machine
from suites.records.events import AnyEvent
from suites.scaling import node_speeds
from suites.testbed import local, netns
from suites.testbed.busy import loops_per_s
from suites.transmission import cell, sweep
from suites.transmission.traffic import Extent
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.launch.node import here
from tianji.messages import Done, FromRole, Report
from tianji.run.training import train
from tianji.simulation.calibration import Calibration, Drawn, Work
from tianji.simulation.machines import Machine
from tianji.simulation.world import Simulation
from tianji.topology import parameters

ENDLESS = 1 << 50
WINDOW_S, TRIPS, LIMIT_S = 0.5, 500, 60.0
"""Of one size of message: seconds of its window, and round trips; and seconds that all may take."""

Say = Callable[[str], object]


class Failed(Exception):
    """Something could not be measured; the text is one line."""


def calibrate(workloads: Sequence[Workload], seconds: float, cores: tuple[int, ...], say: Say) -> Calibration:
    """Measure this machine.

    Parameters
    ----------
    seconds
        of each run; there are two of each workload.
    cores
        that the runs may use.
    say
        is told how it goes, line by line.

    Raises
    ------
    Failed
        if a run ended before its first round did, or a channel failed.
    """
    notes: list[str] = []
    found = machine.manifest()
    total = len(workloads) + 1
    say(f"1/{total} channels: messages on one host, and between two emulated ones")
    here = edges("samples", cores)
    apart = None
    if (reason := netns.unavailable()) is None:
        apart = edges("samples-2hosts", cores)
    else:
        notes.append(f"links between nodes were not measured: {reason}")
        say(f"  {notes[-1]}")
    if (load := found["load_1min_at_start"]) > 0.5 * len(cores):
        notes.append(f"the machine was not idle: load {load:g} over one minute")
        say(f"  {notes[-1]}; processor times hold, and times to wake up are too long")
    usable = min(len(cores), found["cpu_quota_cores"] or len(cores))
    speeds = [core_speed(usable)]
    work: dict[str, Work] = {}
    spent_s, messages = 0.0, 0
    for number, workload in enumerate(workloads, 2):
        say(f"{number}/{total} {workload.id}: {seconds:g} s without a Root, and {seconds:g} s of {GROUPS} groups")
        config, describe = config_of(workload, cores), workload.describe()
        alone = accounts(replace(config, stop_seconds=seconds))
        grouped = accounts(replace(config, stop_seconds=seconds, groups=GROUPS, fusion_rounds=1))
        try:
            made = work_of(config, parameters(config, describe), alone, grouped)
        except Missing as missing:
            raise Failed(f"{workload.id}: {missing} in {seconds:g} s; give more --seconds") from None
        speeds.append(core_speed(usable))
        work[workload.id] = replace(made, loops_per_s=fmean(speeds[-2:]))
        spent_s += overhead_s(alone)
        steps = round(sum(report.counters.get("samples_consumed_unique", 0.0) for report in alone))
        messages += messages_of(replace(config, stop_steps=max(config.round_steps, steps)), describe, workload.id, made)
        for kind, one in (("fragment", made.fragments[0].compute), ("round", made.rounds[0].compute)):
            say(f"  {one.count} times a {kind} of {one.mean_s * 1e3:.2f} ms")
    if (off := max(speeds) / min(speeds) - 1) > node_speeds.TOLERANCE:
        notes.append(f"the machine changed its speed by {off:.0%} meanwhile, by a bare loop")
        say(f"  {notes[-1]}")
    measured = machine_of(usable, spent_s / max(1, messages), here, apart)
    versions = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    on = f"{found['cpu_model']}, {usable:g} cores, {found['system']} {found['kernel']}, Python {found['python']}, {versions}"
    return Calibration(measured, on, work, tuple(notes))


def core_speed(cores: float) -> float:
    """Loops a second of a core by the bare loop that also measures the speed of nodes, while so many cores count at once."""
    processes = max(1, round(cores))
    return sum(loops_per_s([here()] * processes)) / cores


def config_of(workload: Workload, cores: tuple[int, ...]) -> TrainConfig:
    """TianJi's configuration of a workload, without a limit of steps."""
    config = TianJi().config(Task(TianJi.name, workload, 0, cores))
    # One thread, whose processor time is the work's.
    return replace(config, stop_steps=ENDLESS, snapshot_every_steps=ENDLESS, learner_threads=1)


def accounts(config: TrainConfig) -> list[Report]:
    """Train for the configured seconds, and return the roles' final reports.

    Raises
    ------
    KeyboardInterrupt
        after the roles have ended.
    """
    reports: list[Report] = []
    result = train(config, lambda message: reports.append(message) if isinstance(message, Report) else None)
    if result.outcome == "interrupted":
        raise KeyboardInterrupt
    return reports


def messages_of(config: TrainConfig, describe: EnvDescription, workload: str, work: Work) -> int:
    """Number of messages between processes in the same run of the simulated world."""

    def ends(message: FromRole) -> str | None:
        return "steps" if isinstance(message, Done) else None

    times = Drawn(Calibration(Machine(), "", {workload: work}), workload, config, seed=0)
    run = Simulation(config, describe, times, on_message=ends)
    run.run()
    return run.messages


def edges(workload: str, cores: tuple[int, ...]) -> list[AnyEvent]:
    """Measure TianJi's channel by a cell of the transmission suite."""
    extent = Extent(sizes=(SMALL_BYTES, LARGE_BYTES), explorers=(1,), window_s=WINDOW_S, trips=TRIPS)
    task = cell.Task(pipe="tianji", traffic=sweep.WORKLOADS[workload], extent=extent, explorers=1, cores=cores)
    with TemporaryDirectory(prefix="c-") as folder:
        (Path(folder) / cell.TASK).write_bytes(msgspec.json.encode(task))
        done = local.run([sys.executable, "-m", "suites.transmission.cell"], Path(folder), LIMIT_S, lambda: None)
        if done.exit_status != 0:
            last = (done.tail.splitlines() or ["it took too long"])[-1]
            raise Failed(f"channel {workload}: {last}")
        return bundle.read_events(Path(folder) / "events.jsonl")
