"""Predicts cells of the suite scaling from a calibration: `python -m benchmarks.predicted_cells --machine FILE EXPERIMENT...`.

`--measured FILE` sets the predictions beside a sealed session, and names every miss. The calibration knows one node with all of
the machine's cores, so every cell is a prediction: on fewer cores, over links, and for other topologies.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import fmean

from msgspec.structs import replace

from baselines.system import SYSTEMS, Task
from baselines.tianji import TianJi
from programs.cli import ConfigError, OneLineParser, run
from suites.records import archive
from suites.records.bundle import Bundle, BundleError
from suites.records.events import Counter as Recorded
from suites.scaling import analysis, checks, node_speeds
from suites.scaling.analysis import COPIES
from suites.scaling.experiment import Experiment
from suites.scaling.sweep import EXPERIMENTS
from suites.session import catalogue
from suites.staleness import analysis as staleness
from suites.staleness.analysis import WAITS
from suites.testbed.control_groups import PERIOD_US
from tianji.config import TrainConfig
from tianji.launch.node import Cluster, Node
from tianji.roles.learner import Learner
from tianji.simulation.calibration import Calibration, Drawn, load
from tianji.simulation.machines import Machine
from tianji.simulation.world import Simulation
from tianji.telemetry import Account, took, took_seconds

STANDS_FOR = {"xingtian": "tianji-one-learner"}
"""A system that is not made of the roles, and the topology that predicts it: one learner, and explorers on all nodes. What its
brokers cost is not in it."""
SYSTEMS_SHOWN = ("tianji", "tianji-one-learner", "xingtian", "tianji-copies")
RATE_WITHIN, LAG_WITHIN, WAITS_WITHIN = 0.1, 1.0, 0.05
"""A prediction is right within this share of the measured throughput, so many rounds of the lag's median, and this much of each
share of waiting."""
SECONDS = 60.0
"""Of a simulated run of a cell: longer than the experiment's, so that it has many rounds."""


@dataclass(frozen=True)
class Figures:
    """What a cell gives. None: not known."""

    samples_per_s: float
    """Samples trained on, each counted once."""
    lag_rounds: float | None
    """Median number of rounds by which the learner is ahead of a sample's policy when it trains on it."""
    waits: dict[str, float | None]
    """By kind of role, the share of time for which it waits for other roles."""
    loops_per_s: float | None = None
    """Of each node by the bare loop, mean of before and after the runs. None: predicted, or not recorded."""
    round_s: float | None = None
    """Processor seconds of a learner's round. None: predicted, or not recorded."""


def misses(predicted: Figures, measured: Figures) -> list[str]:
    """What was predicted wrongly. What is not known on one side is no miss."""
    found = []
    if abs(predicted.samples_per_s / measured.samples_per_s - 1) > RATE_WITHIN:
        found.append("throughput")
    if predicted.lag_rounds is not None and measured.lag_rounds is not None:
        found += ["lag"] if abs(predicted.lag_rounds - measured.lag_rounds) > LAG_WITHIN else []
    for role, share in predicted.waits.items():
        was = measured.waits[role]
        if share is not None and was is not None and abs(share - was) > WAITS_WITHIN:
            found.append(f"{role}s' waiting")
    return found


def cell_config(experiment: Experiment, system: TianJi, nodes: int, cores: float) -> TrainConfig:
    """Configuration of a cell, as the suite makes it.

    Raises
    ------
    ConfigError
        if the system cannot run it.
    """
    workload = experiment.scaled(catalogue.load(experiment.workload), nodes)
    if reason := system.unable(workload) or system.unable_on(workload, nodes):
        raise ConfigError(f"{system.name} on {nodes} nodes cannot run {experiment.id}: {reason}")
    places = tuple(Node(f"10.0.0.{n}", f"node-{n}", cores=experiment.cores) for n in range(1, nodes + 1))
    return system.config(Task(system.name, workload, 0, tuple(range(ceil(cores))), Cluster(places)))


def node_of(machine: Machine, experiment: Experiment, nodes: int, speed: float = 1.0) -> Machine:
    """An emulated node: its budget of cores or, without one, its share of the machine's; and its link.

    A node of half the calibrated speed does what one with half of the cores does, as its share is below one core.
    """
    cores = (experiment.cores or machine.cores / nodes) * speed
    link = experiment.link_bits_per_s
    if experiment.cores is not None:
        machine = replace(machine, period_seconds=PERIOD_US / 1e6)
    return replace(machine, cores=cores, link_bytes_per_s=machine.link_bytes_per_s if link is None else link / 8)


def speed_of(calibration: Calibration, experiment: Experiment, nodes: int, loops_per_s: float) -> float:
    """Speed of nodes over the calibrated one, from the loops a second that each of them had.

    Raises
    ------
    ConfigError
        if the calibration does not say how fast its machine was.
    """
    calibrated = calibration.of(experiment.workload).loops_per_s
    if calibrated is None:
        raise ConfigError("--at-speed: the calibration has no speed of its machine; calibrate again")
    return loops_per_s / (calibrated * node_of(calibration.machine, experiment, nodes).cores)


def predicted(
    calibration: Calibration,
    experiment: Experiment,
    name: str,
    nodes: int,
    seconds: float = SECONDS,
    sharing: int | None = None,
    speed: float = 1.0,
) -> Figures:
    """Run a cell in the simulated world.

    Parameters
    ----------
    sharing
        number of nodes among which the machine's cores are shared if nodes have no budget. None: `nodes`.
    speed
        of the nodes, over that of the calibration.

    Raises
    ------
    ConfigError
        if it cannot be predicted.
    """
    if name.endswith(COPIES):
        # They know nothing of each other.
        one = predicted(calibration, experiment, name.removesuffix(COPIES), 1, seconds, nodes, speed)
        return Figures(nodes * one.samples_per_s, None, dict.fromkeys(WAITS))
    system = SYSTEMS.get(STANDS_FOR.get(name, name))()
    if not isinstance(system, TianJi):
        raise ConfigError(f"{name}: only {TianJi.name}, its topologies and {', '.join(STANDS_FOR)} can be predicted")
    config = replace(cell_config(experiment, system, nodes, calibration.machine.cores), stop_steps=1 << 50)
    describe = catalogue.load(experiment.workload).describe()
    times = Drawn(calibration, experiment.workload, config, seed=0)
    machine = node_of(calibration.machine, experiment, sharing or nodes, speed)
    simulation = Simulation(config, describe, times, machine=machine, nodes=nodes)
    warm_up = max(analysis.WARM_UP_S, analysis.WARM_UP_SHARE * seconds)
    simulation.run(warm_up)
    before = _consumed(simulation)
    simulation.run(seconds - warm_up)
    ages = Counter[int]()
    for learner in _learners(simulation):
        ages.update(learner.histograms()["age_rounds"])
    waits = {role: share(_accounts(simulation, role), causes) for role, causes in WAITS.items()}
    return Figures((_consumed(simulation) - before) / (seconds - warm_up), staleness.quantile(ages, 0.5), waits)


def _learners(simulation: Simulation) -> Iterator[Learner]:
    for name in simulation.processes:
        if isinstance(role := simulation.processes[name].host(name).role, Learner):
            yield role


def _consumed(simulation: Simulation) -> float:
    return float(sum(learner.steps for learner in _learners(simulation)))


def _accounts(simulation: Simulation, kind: str) -> list[tuple[Account, list[Account]]]:
    """Accounts of a kind of role, each with those of the other roles of its process."""
    found = []
    for name, process in simulation.processes.items():
        if name.startswith(kind):
            own = process.host(name)
            found.append((own.account, [host.account for host in process.hosts if host is not own]))
    return found


def share(accounts: Iterable[tuple[Account, Sequence[Account]]], causes: Sequence[str]) -> float | None:
    """Share of all accounted time for which roles waited for these causes; None if nothing is accounted for.

    Real accounts have no waiting while another role of the same process works, and those of the simulation have. So it is taken
    away here.

    Parameters
    ----------
    accounts
        of roles, each with those of the other roles of its process.
    """
    waited = total = 0
    for account, beside in accounts:
        worked = sum(sum(other.busy_ns.values()) + other.wait_ns["simulator"] for other in beside)
        mine = max(0, sum(account.wait_ns[cause] for cause in causes) - worked)
        waited += mine
        others = (ns for cause, ns in account.wait_ns.items() if cause != "stop" and cause not in causes)
        total += sum(account.busy_ns.values()) + sum(others) + mine
    return waited / total if total else None


def measured(bundles: Sequence[Bundle]) -> Figures:
    """Figures of the runs of one cell, mean over blocks."""
    runs = [analysis.understand(one) for one in bundles]
    rates = [rate for one in runs if (rate := one.metrics["unique_consumption_samples_per_s"]) is not None]
    ages = Counter[int]()
    for one in bundles:
        # Bundles of earlier revisions do not have it.
        ages.update(staleness.histogram(one, "learner_age_rounds"))
    waits = {role: _mean(waiting(one, role) for one in bundles) for role in WAITS}
    loops = [fmean(pair) for one in bundles if (pair := node_speeds.means(one)) is not None]
    lag = staleness.quantile(ages, 0.5) if ages else None
    return Figures(fmean(rates), lag, waits, fmean(loops) if loops else None, _round_s(bundles))


def _round_s(bundles: Sequence[Bundle]) -> float | None:
    """Mean processor seconds of a learner's round."""
    name = f"learner_{took_seconds('round')}"
    seconds = sum(event.value for one in bundles for event in one.of(Recorded) if event.name == name)
    rounds = sum(sum(staleness.histogram(one, f"learner_{took('round')}").values()) for one in bundles)
    return seconds / rounds if rounds else None


def waiting(bundle: Bundle, role: str) -> float | None:
    """Share of time for which a kind of role waited for other roles in a run."""
    found = [staleness.waiting_share(bundle, role, cause) for cause in WAITS[role]]
    return None if None in found else sum(one for one in found if one is not None)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def session(file: Path, experiment: str, unsteady: bool = False) -> tuple[dict[tuple[str, int], Figures], int]:
    """What a sealed session gave, by system and number of nodes; and how many runs are left out.

    Those of blocks whose nodes changed their speed are left out (`checks.steady`), unless they are asked for.

    Raises
    ------
    ConfigError
        if it has no cell of this experiment.
    """
    own = [b for b in archive.read(file) if b.manifest.workload == experiment and b.manifest.status == "completed"]
    if not own:
        raise ConfigError(f"{file}: has no runs of {experiment}")
    kept = own if unsteady else [run.bundle for run in checks.steady([analysis.understand(one) for one in own])[0]]
    cells: dict[tuple[str, int], list[Bundle]] = {}
    for one in kept:
        cells.setdefault((one.manifest.system, one.manifest.nodes), []).append(one)
    return {cell: measured(bundles) for cell, bundles in cells.items()}, len(own) - len(kept)


def table(
    calibration: Calibration,
    name: str,
    systems: Sequence[str],
    nodes: Sequence[int],
    file: Path | None = None,
    unsteady: bool = False,
    at_speed: bool = False,
) -> list[str]:
    """Predictions of an experiment as a Markdown table, beside those that a sealed session measured.

    Parameters
    ----------
    file
        that session.
    unsteady
        whether blocks count whose nodes changed their speed.
    at_speed
        whether each cell is predicted at the speed that its nodes had. All blocks count then.
    """
    if name not in EXPERIMENTS:
        raise ConfigError(f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}")
    told, left_out = (None, 0) if file is None else session(file, name, unsteady or at_speed)
    heads = ["samples/s", "median lag, rounds", *(f"{role}s wait" for role in WAITS)]
    columns = [f"`{name}`, *predicted*", "nodes", *heads]
    if told is not None:
        speeds = ["speed"] * at_speed
        columns = [columns[0], "nodes", *speeds, *(cell for head in heads for cell in (head, "measured")), "missed"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    rounds: list[str] = []
    right = compared = 0
    for system in systems:
        for number in nodes:
            if system not in (TianJi.name, *STANDS_FOR) and number == 1:
                continue  # It is TianJi then.
            was = None if told is None else told.get((system, number))
            if told is not None and was is None:
                continue
            speed = 1.0
            if was is not None and at_speed:
                if was.loops_per_s is None:
                    raise ConfigError(f"--at-speed: {file} does not have the speed of the nodes of {system}")
                speed = speed_of(calibration, EXPERIMENTS[name], number, was.loops_per_s)
            found = predicted(calibration, EXPERIMENTS[name], system, number, speed=speed)
            cells = _cells(found)
            if was is not None:
                missed = misses(found, was)
                cells = [*(cell for pair in zip(cells, _cells(was), strict=True) for cell in pair), ", ".join(missed)]
                cells = [f"{speed:.2f}"] * at_speed + cells
                compared, right = compared + 1, right + (not missed)
                if was.round_s is not None:
                    rounds.append(f"{system} on {number} {was.round_s * 1e3:.1f}")
            lines.append(f"| {system} | {number} | {' | '.join(cells)} |")
    if told is not None:
        limits = f"throughput within {RATE_WITHIN:.0%}, lag within {LAG_WITHIN:g} round, waiting within {WAITS_WITHIN:g}"
        if left_out:
            lines += [
                "",
                f"{left_out} runs are left out: their blocks' nodes changed speed by more than {node_speeds.TOLERANCE:.0%}.",
            ]
        if rounds:
            lines += ["", f"Processor time of a learner's round, measured, in ms: {', '.join(rounds)}."]
        lines += ["", f"{right} of {compared} cells are right in everything that is known: {limits}."]
    return lines


def _cells(figures: Figures) -> list[str]:
    known = [figures.lag_rounds, *figures.waits.values()]
    return [f"{figures.samples_per_s:,.0f}", *("" if one is None else f"{one:.2f}" for one in known)]


def main(arguments: Sequence[str]) -> int:
    """Print a table for each experiment."""
    parser = OneLineParser(prog="python -m benchmarks.predicted_cells", description="Predict cells of the suite scaling.")
    parser.add_argument("experiments", nargs="+", metavar="EXPERIMENT", help=f"of {', '.join(EXPERIMENTS)}")
    parser.add_argument("--machine", type=Path, required=True, metavar="FILE", help="that `python -m suites calibrate` wrote")
    parser.add_argument(
        "--systems", default=",".join(SYSTEMS_SHOWN), metavar="A,B,...", help="these systems (default: %(default)s)"
    )
    parser.add_argument("--nodes", default="1,2,4,8", metavar="N,M,...", help="numbers of nodes (default: %(default)s)")
    parser.add_argument("--measured", type=Path, metavar="FILE", help="a sealed session of the experiments")
    parser.add_argument("--unsteady", action="store_true", help="also compare with blocks whose nodes changed their speed")
    parser.add_argument(
        "--at-speed",
        action="store_true",
        help="predict each cell at the speed that its nodes had, by the bare loop, in all blocks",
    )
    options = parser.parse_args(arguments)
    if options.at_speed and options.measured is None:
        raise ConfigError("--at-speed: give the session with --measured")
    try:
        nodes = sorted({int(number) for number in options.nodes.split(",")})
    except ValueError:
        nodes = [0]
    if nodes[0] < 1:
        raise ConfigError(f"--nodes {options.nodes}: give numbers of at least 1, such as 1,2,4")
    calibration = load(options.machine)
    print(f"Calibrated on {calibration.measured_on}.")
    for note in calibration.notes:
        print(f"Note: {note}.")
    try:
        for name in options.experiments:
            lines = table(
                calibration, name, options.systems.split(","), nodes, options.measured, options.unsteady, options.at_speed
            )
            print("\n" + "\n".join(lines))
    except BundleError as error:
        raise ConfigError(f"--measured: {error}") from None
    return 0


if __name__ == "__main__":
    sys.exit(run("predicted_cells", main))
