"""A calibration from cells of the suite scaling that were recorded on one and two emulated nodes.

On a share of a core, work can take more processor time than on a whole one: a process that stands still most of the time finds
its data gone from the caches. Cells on one node show what it takes there, and cells on two show what a Root's means take.
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
from suites.calibration.accounts import GROUPS, Missing, overhead_s, work_of
from suites.calibration.measuring import ENDLESS, messages_of
from suites.records import events
from suites.records.bundle import Bundle
from suites.scaling import checks
from suites.scaling.experiment import Experiment
from suites.scaling.sweep import EXPERIMENTS
from tianji.config import TrainConfig
from tianji.launch.node import Cluster, Node
from tianji.messages import Report
from tianji.topology import parameters
from tianji.worlds.calibration import Calibration, Work


def calibrated(base: Calibration, bundles: Iterable[Bundle]) -> Calibration:
    """A calibration with the work of recorded cells.

    Wake-ups, copies and links are those of `base`. Over all workloads, the processor time that no piece of work took on
    one node is shared out evenly over the messages.

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
    spent_s, messages = 0.0, 0
    for name in names:
        alone = cells[name, 1]
        experiment, config = _cell(alone[0])
        if experiment.workload in work:
            raise ConfigError(f"--cells: two experiments have the workload {experiment.workload}; give one of them")
        workload = _workload(alone[0])
        single, double = (list(map(report_of, cells.get((name, nodes), ()))) for nodes in (1, GROUPS))
        try:
            made = work_of(config, parameters(config, workload.describe()), single, double)
        except Missing as missing:
            raise ConfigError(f"--cells: {name} on one node: {missing}") from None
        work[experiment.workload] = made = replace(made, loops_per_s=_speed(alone, experiment))
        spent_s += overhead_s(single)
        steps = round(sum(one.counters.get(CONSUMED, 0.0) for one in single))
        stopping = replace(config, stop_steps=max(config.round_steps, steps))
        messages += messages_of(stopping, workload.describe(), experiment.workload, made)
        budget = "shared cores" if experiment.cores is None else f"{experiment.cores:g} cores"
        told.append(f"{name}, {len(single)} runs on one node of {budget} and {len(double)} on {GROUPS}")
    machine = replace(base.machine, message_seconds=spent_s / max(1, messages))
    return Calibration(machine, f"{base.measured_on}; work from {'; '.join(told)}", work, base.notes)


CONSUMED = "samples_consumed_unique"


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
    return msgspec.convert(bundle.manifest.configuration["workload"], Workload)


def _speed(bundles: Sequence[Bundle], experiment: Experiment) -> float | None:
    """Loops a second of a core by the bare loop, mean over cells; None: not recorded, or nodes have no budget of their own."""
    found = [fmean(pair) for bundle in bundles if (pair := checks.means(bundle)) is not None]
    return fmean(found) / experiment.cores if found and experiment.cores is not None else None
