"""A calibration from cells of the suite scaling that were recorded on one and two emulated nodes.

On a share of a core, work can take more processor time than on a whole one. A process that stands still most of the time finds
its data gone from the caches. Cells on one node show what work takes there, and cells on two show what a Root's means take.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec
from msgspec.structs import replace

from baselines.system import Task
from baselines.tianji import TianJi
from baselines.workload import Workload
from programs.cli import ConfigError
from suites.calibration.accounts import COMPUTED, GROUPS, Missing, work_of
from suites.calibration.measuring import ENDLESS, messages_of
from suites.records import events
from suites.records.bundle import Bundle
from suites.scaling import node_speeds
from suites.scaling.experiment import Experiment
from suites.scaling.sweep import EXPERIMENTS
from tianji.config import TrainConfig
from tianji.launch.node import Cluster, Node
from tianji.messages import Report
from tianji.simulation.calibration import Calibration, Durations, Work
from tianji.telemetry import took_seconds
from tianji.topology import parameters


def calibrated(base: Calibration, bundles: Iterable[Bundle]) -> Calibration:
    """A calibration with the work of recorded cells.

    The machine is that of `base`. A process also computes between pieces of work, and each side of a message costs half of its
    `message_seconds`. The rest of that time is added to the fragments of actors, and to the rounds of learners.

    Parameters
    ----------
    base
        of the machine that measured the cells.
    bundles
        of one or more sessions. Cells of `tianji` on one node are needed, and those on two for means. Others are left out.

    Raises
    ------
    ConfigError
        if there are no cells on one node, if two experiments have one workload, or if a cell lacks a piece of work.
    """
    cells: dict[tuple[str, int], list[Bundle]] = {}
    for one in bundles:
        m = one.manifest
        if m.suite == "scaling" and m.system == TianJi.name and m.status == "completed" and m.nodes in (1, GROUPS):
            cells.setdefault((m.workload, m.nodes), []).append(one)
    names = [name for name, nodes in cells if nodes == 1]
    if not names:
        raise ConfigError(f"--cells: has no completed cells of {TianJi.name} on one node")
    work: dict[str, Work] = {}
    told: list[str] = []
    for name in names:
        alone, double = cells[name, 1], cells.get((name, GROUPS), [])
        experiment, config = _cell(alone[0])
        if experiment.workload in work:
            raise ConfigError(f"--cells: two experiments have the workload {experiment.workload}; give one of them")
        try:
            work[experiment.workload] = _work(experiment, config, alone, double, base.machine.message_seconds)
        except Missing as missing:
            raise ConfigError(f"--cells: {name} on one node: {missing}") from None
        budget = "shared cores" if experiment.cores is None else f"{experiment.cores:g} cores"
        told.append(f"{name}, {len(alone)} runs on one node of {budget} and {len(double)} on {GROUPS}")
    return Calibration(base.machine, f"{base.measured_on}; work from {'; '.join(told)}", work, base.notes)


def _work(
    experiment: Experiment, config: TrainConfig, alone: Sequence[Bundle], double: Sequence[Bundle], message_s: float
) -> Work:
    """Work of a workload. `Missing` if its cells lack a piece of work."""
    describe = _workload(alone[0]).describe()
    single = list(map(report_of, alone))
    made = work_of(config, parameters(config, describe), single, list(map(report_of, double)))
    steps = round(sum(one.counters.get("samples_consumed_unique", 0.0) for one in single))
    stopping = replace(config, stop_steps=max(config.round_steps, steps))
    messages_s = messages_of(stopping, describe, experiment.workload, made) * message_s / 2
    of_actors, of_learners = (sum(seconds) for seconds in zip(*map(between_work, alone), strict=True))
    (fragment,), (trained,) = made.fragments, made.rounds
    return replace(
        made,
        fragments=(replace(fragment, compute=longer(fragment.compute, of_actors - messages_s)),),
        rounds=(replace(trained, compute=longer(trained.compute, of_learners - messages_s)),),
        loops_per_s=_speed(alone, experiment),
    )


def between_work(bundle: Bundle) -> tuple[float, float]:
    """Processor seconds between pieces of work: of actors with a process of their own, and of all other processes."""
    used: dict[str, float] = {}
    took: defaultdict[str, float] = defaultdict(float)
    for event in bundle.of(events.Counter):
        name = event.name.partition("_")[2]
        if name == "processor_s":
            used[event.role] = event.value
        elif name in map(took_seconds, COMPUTED):
            took[event.role] += event.value
    actors = sum(seconds - took[role] for role, seconds in used.items() if role.startswith("actor"))
    return actors, sum(used.values()) - sum(took.values()) - actors


def longer(one: Durations, more_s: float) -> Durations:
    """Durations with a longer sum, if `more_s` is more than nothing. Draws have the exact mean, so the shape can stay."""
    return replace(one, sum_s=one.sum_s + max(0.0, more_s))


def report_of(bundle: Bundle) -> Report:
    """Counters and histograms of all roles of a recorded run together, by names without the kind of the role."""
    counters: defaultdict[str, float] = defaultdict(float)
    histograms: dict[str, Counter[int]] = {}
    for event in bundle.events:
        match event:
            case events.Counter(name=name, value=value, role=role) if role:
                counters[name.removeprefix(f"{role.split()[0]}_")] += value
            case events.Histogram(name=name, counts=counts):
                histograms.setdefault(name.partition("_")[2], Counter()).update(counts)
    return Report("", dict(counters), {}, {}, 0.0, 0, {name: dict(counts) for name, counts in histograms.items()})


def _cell(bundle: Bundle) -> tuple[Experiment, TrainConfig]:
    """The experiment of a cell on one node, and its configuration without a limit of steps."""
    m = bundle.manifest
    experiment = EXPERIMENTS.get(m.workload)
    if experiment is None:
        raise ConfigError(f"--cells: this version has no experiment {m.workload}; known: {', '.join(EXPERIMENTS)}")
    place = Node("10.0.0.1", "node-1", cores=experiment.cores)
    task = Task(TianJi.name, _workload(bundle), m.seed, tuple(range(m.cores)), Cluster((place,)))
    return experiment, replace(TianJi().config(task), stop_steps=ENDLESS, stop_seconds=None)


def _workload(bundle: Bundle) -> Workload:
    """The workload that the cell ran. `ConfigError` if this version cannot read it."""
    try:
        return msgspec.convert(bundle.manifest.configuration["workload"], Workload)
    except (KeyError, msgspec.ValidationError) as error:
        raise ConfigError(f"--cells: {bundle.path.name} has no workload that this version can read: {error}") from None


def _speed(bundles: Sequence[Bundle], experiment: Experiment) -> float | None:
    """Loops a second of a core by the bare loop, mean over cells; None: not recorded, or nodes have no budget of their own."""
    found = [fmean(pair) for bundle in bundles if (pair := node_speeds.means(bundle)) is not None]
    return fmean(found) / experiment.cores if found and experiment.cores is not None else None
