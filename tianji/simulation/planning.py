"""What each discipline and topology would give on a cluster: predictions of the simulated world, for `tianji plan`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from msgspec.structs import replace
from rich.box import SIMPLE_HEAD
from rich.table import Table

from programs.cli import ConfigError
from tianji.averaging import mean
from tianji.config import SimulatorConfig, TrainConfig
from tianji.environments.description import EnvDescription
from tianji.messages import Report
from tianji.run.training import train
from tianji.simulation.calibration import Calibration, Drawn, Durations, Fragment, Round, Work
from tianji.simulation.forecast import ENDLESS, Forecast, forecast
from tianji.simulation.machines import Machine
from tianji.simulation.stand_ins import Times
from tianji.telemetry import Account, Histogram, took, took_seconds
from tianji.topology import parameters

DISCIPLINES = ("strict", "quota-free", "exactly-one-round", "admitted-in-order", "relaxed")
"""Those that are compared, with their default options."""
GROUPS, ONE = "a learner a node", "one learner"
MOST_NODES = 512
"""With more a plan would take minutes."""
MOST_SIMULATOR_CORES = 64
"""With more there are too many actors to simulate them all, on many nodes."""
ROUNDS, FEWEST_ROUNDS, MOST_ROUNDS = 1_000, 8, 50
"""Rounds to simulate of all nodes together, and of each node at least and at most."""
ASSUMED_GBIT, ASSUMED_LATENCY_S = 10.0, 50e-6
"""Of links, where neither the calibration nor the user states them."""
MEASURED_S = 4.0
"""Length of the run that measures an environment which is not in the calibration."""
MEANS = 200
"""Means of two models that are timed then."""
SLOTS = 8
"""Slots of an actor that need not wait for weights."""
MILLION = 1e6


@dataclass(frozen=True)
class Split:
    """So many simulators of so many cores each."""

    simulators: int
    ranks: int

    def __str__(self) -> str:
        return f"{self.simulators} x {self.ranks}"


def splits(cores: int) -> list[Split]:
    """Every split of a node's cores into simulators of equally many."""
    return [Split(cores // ranks, ranks) for ranks in range(1, cores + 1) if cores % ranks == 0]


class Ranked:
    """Times of simulators with cores of their own (`Times`): nobody else uses these, so their work is waiting.

    Parameters
    ----------
    serial
        share of a simulator's work that more cores do not shorten, by Amdahl's law.
    """

    def __init__(self, times: Times, split: Split, serial: float) -> None:
        self.round, self.mean = times.round, times.mean
        self._fragment = times.fragment
        self._shorter = SimulatorConfig(ranks=split.ranks, serial=serial).shorter

    def fragment(self, actor: int) -> tuple[float, float]:
        compute_s, wait_s = self._fragment(actor)
        return 0.0, self._shorter * (compute_s + wait_s)


@dataclass(frozen=True)
class Line:
    """One row of a plan."""

    topology: str
    discipline: str
    found: Forecast
    split: Split | None = None
    """The best split of a node's simulator cores, where there is anything to split."""

    @property
    def hours(self) -> float:
        """Hours for a million samples."""
        return MILLION / self.found.steps_per_s / 3600


def rounds_of(nodes: int) -> int:
    """Rounds to simulate of each node."""
    return max(FEWEST_ROUNDS, min(MOST_ROUNDS, ROUNDS // nodes))


def cluster(calibration: Calibration, gbit: float | None) -> tuple[Machine, list[str]]:
    """The calibrated machine with links, and what is assumed of them."""
    machine, assumed = calibration.machine, []
    if gbit is not None:
        machine = replace(machine, link_bytes_per_s=gbit * 1e9 / 8)
    elif not math.isfinite(machine.link_bytes_per_s):
        machine = replace(machine, link_bytes_per_s=ASSUMED_GBIT * 1e9 / 8)
        assumed.append(f"assumed: links of {ASSUMED_GBIT:g} Gbit/s (--gbit says otherwise)")
    if not machine.latency_seconds:
        machine = replace(machine, latency_seconds=ASSUMED_LATENCY_S)
        assumed.append(f"assumed: {ASSUMED_LATENCY_S * 1e6:g} us one way between nodes")
    return machine, assumed


def known(calibration: Calibration, config: TrainConfig, describe: EnvDescription) -> str | None:
    """Name of the calibrated workload with this environment and a network of this size; None: there is none."""
    size = parameters(config, describe)
    found = (name for name, work in calibration.work.items() if (work.env, work.parameters) == (config.env, size))
    return next(found, None)


def measured_now(config: TrainConfig, describe: EnvDescription) -> Work:
    """Measure what work takes here, by a short real run of one actor.

    Raises
    ------
    ConfigError
        if the run is too short for one round of updates.
    """
    reports: list[Report] = []

    def listen(message: Any) -> None:
        if isinstance(message, Report):
            reports.append(message)

    single = replace(config, groups=1, actors=1, discipline="strict", chunk_slots=2, stop_seconds=MEASURED_S)
    train(single, listen)
    size = parameters(config, describe)
    fragment, rounds = _durations(reports, "actor", "fragment"), _durations(reports, "learner", "round")
    if fragment is None or rounds is None:
        raise ConfigError(
            f"plan: {config.env} ends no round of updates in {MEASURED_S:g} s, so its times cannot be measured now"
        )
    models = _means(size)
    return Work(
        env=config.env,
        fragments=(
            Fragment(config.fragment_steps, config.envs_per_actor, fragment, _durations(reports, "actor", "simulator")),
        ),
        rounds=(Round(single.round_steps, rounds),),
        parameters=size,
        mean=models,
        adoption=models,
    )


def _durations(reports: list[Report], kind: str, name: str) -> Durations | None:
    """Durations that roles of a kind have recorded; None: there are none."""
    bins: Histogram = {}
    sum_s = 0.0
    for report in reports:
        own = report.histograms.get(took(name))
        if own and report.role.startswith(kind):
            sum_s += report.counters[took_seconds(name)]
            for number, count in own.items():
                bins[number] = bins.get(number, 0) + count
    return Durations(sum(bins.values()), sum_s, bins) if bins else None


def _means(size: int) -> Durations:
    """Time means of two models, for each model in them."""
    account = Account()
    models = [np.zeros(size, np.float32), np.ones(size, np.float32)]
    total_s = 0.0
    for _ in range(MEANS):
        start = time.perf_counter_ns()
        mean(models, [1, 1])
        each_ns = (time.perf_counter_ns() - start) // len(models)
        account.record("mean", each_ns)
        total_s += each_ns / 1e9
    return Durations(MEANS, total_s, account.took["mean"])


def lines(
    config: TrainConfig,
    describe: EnvDescription,
    calibration: Calibration,
    workload: str,
    machine: Machine,
    nodes: int,
    *,
    simulator_cores: int | None = None,
    serial: float = 0.0,
) -> Iterator[Line]:
    """Simulate every discipline in both topologies, with the actors of `config` on each node.

    Parameters
    ----------
    simulator_cores
        cores of each node that simulators share. Every split is simulated, and the line is the one of most samples a second.
        None: simulators are as they were calibrated.
    serial
        see `Ranked`.
    """

    def one(topology: str, rule: str, split: Split | None) -> Line:
        groups = nodes if topology == GROUPS else 1
        node = config if split is None else _shared(config, split)
        own = replace(
            node,
            groups=groups,
            actors=node.actors * (nodes // groups),
            discipline=rule,
            chunk_slots=2 if rule == "strict" else SLOTS,
            stop_steps=ENDLESS,
        )
        drawn = Drawn(calibration, workload, own, config.seed)
        times = drawn if split is None else Ranked(drawn, split, serial)
        return Line(topology, rule, forecast(own, describe, times, machine, nodes, rounds_of(nodes)), split)

    tried: list[Split | None] = [None] if simulator_cores is None else [*splits(simulator_cores)]
    for topology in (GROUPS, ONE):
        for rule in DISCIPLINES:
            yield max((one(topology, rule, split) for split in tried), key=lambda line: line.found.steps_per_s)


def _shared(config: TrainConfig, split: Split) -> TrainConfig:
    """A node's settings with an actor for each simulator, and as many samples a round."""
    steps = max(1, config.round_steps // split.simulators)
    return replace(
        config, actors=split.simulators, envs_per_actor=1, send_steps=None, ppo=replace(config.ppo, rollout_steps=steps)
    )


def table(found: list[Line], nodes: int, price: float | None) -> Table:
    """Lines as a table, narrow enough for 80 columns.

    Parameters
    ----------
    price
        of a node for an hour.
    """
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    made.add_column("predicted", no_wrap=True)
    for head in ("samples/s", "age, rounds"):
        made.add_column(head, justify="right")
    made.add_column("binds")
    split = any(line.split for line in found)
    if split:
        made.add_column("simulators", justify="right")
    made.add_column("h/million", justify="right")
    if price is not None:
        made.add_column("cost/million", justify="right")
    for topology, own in groupby(found, lambda line: line.topology):
        made.add_row(topology)
        for line in own:
            cells = [f"{line.found.steps_per_s:,.0f}", f"{line.found.age_rounds:.1f}", line.found.binds]
            cells += [*([str(line.split)] if split else []), f"{line.hours:.3g}"]
            made.add_row(f"  {line.discipline}", *cells, *([] if price is None else [f"{line.hours * nodes * price:.3g}"]))
    return made
