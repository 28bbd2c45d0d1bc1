"""Turns two folders of bundles into a comparison of two revisions: pairs their runs, and refuses what cannot be compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from suites.convergence import analysis as convergence
from suites.records import statement, store
from suites.records.bundle import Bundle, BundleError
from suites.records.causes import cause
from suites.scaling import analysis as scaling
from suites.statistics.comparison import Comparison, Metric, Round
from suites.statistics.gate import Better, Rule
from suites.statistics.intervals import MINIMUM_FOR_INTERVAL
from suites.statistics.summary import label_of
from suites.transmission import analysis as transmission

MACHINE = ("cpu_model", "cpu_count", "cpu_usable", "cpu_quota_cores", "memory_bytes", "kernel", "system")
"""Keys of a bundle's environment that must agree: otherwise times say nothing about the code."""
MEMORY_TOLERANCE = 0.01
OWN = "system"
"""Key of a bundle's configuration for a system's own options, which a revision may rename or add to."""

TRANSFERS: tuple[tuple[str, str, Better], ...] = (
    ("goodput_bytes_per_s", "bytes/s", "higher"),
    ("latency_p50_s", "s", "lower"),
)
SCALING: tuple[tuple[str, str, Better], ...] = (
    ("unique_consumption_samples_per_s", "samples/s", "higher"),
    ("socket_bytes_per_payload_byte", "ratio", "lower"),
)
"""What is compared in these suites: metric, unit and the better direction."""


class Measure(NamedTuple):
    """One scalar of a run."""

    metric: str
    unit: str
    better: Better
    value: float
    reached: bool = True
    """False if the run ended before: the value is then the time that it was watched."""


Key = tuple[str, ...]
"""Suite, workload, setting and system of a run; metrics are named by it."""


def compare(base: Path, head: Path, rule: Rule) -> Comparison:
    """Pair what two folders of bundles hold, by system and seed.

    Raises
    ------
    suites.records.bundle.BundleError
        for damaged bundles; where machines or configurations differ, or seeds are not the same, or too few.
    """
    ours, theirs = _side(base), _side(head)
    refused = f"{base} and {head} cannot be compared"
    _same_machine([*ours.values(), *theirs.values()], refused)
    seeds, others = (sorted({seed for _, seed in side}) for side in (ours, theirs))
    if seeds != others:
        raise BundleError(f"{refused}: they are not of the same seeds")
    if len(seeds) < MINIMUM_FOR_INTERVAL:
        # Whole runs scatter with heavy tails: three that happen to agree would show what is not there.
        raise BundleError(f"{refused}: {MINIMUM_FOR_INTERVAL} seeds are needed, there are {len(seeds)}")
    failed = tuple(_failures(ours, theirs))
    metrics, values, left_out = _paired(ours, theirs)
    whole = {name: by_seed for name, by_seed in values.items() if sorted(by_seed) == seeds}
    left_out |= {name: "it is not known with every seed" for name in values if name not in whole and name not in left_out}
    if not whole and not failed:
        raise BundleError(f"{refused}: no system ran to its end with every seed in both")
    rounds = tuple(Round(seed, "base", {name: [by_seed[seed]] for name, by_seed in whole.items()}, 0.0) for seed in seeds)
    first, second = (next(iter(side.values())).manifest.environment for side in (ours, theirs))
    return Comparison(
        environments={"base": first, "head": second},
        metrics=tuple(metrics[name] for name in whole),
        left_out=left_out,
        failed=failed,
        size=rule.size,
        error=rule.error,
        looks=(len(rounds),),
        rounds=rounds,
    )


Side = dict[tuple[Key, int], Bundle]
"""Runs of a folder, by key and seed."""


def _side(root: Path) -> Side:
    found = store.load([root]).bundles
    early = {id(b) for b in statement.repeated(found)}
    kept = [b for b in found if id(b) not in early]
    side = {(_key(b), b.manifest.seed): b for b in kept}
    if len(side) < len(kept):
        raise BundleError(f"{root}: holds two runs of one system with one seed; name folders of one session each")
    return side


def _failures(base: Side, head: Side) -> Iterator[str]:
    """Runs that failed and did not before."""
    for (key, seed), run in head.items():
        before = base.get((key, seed))
        if before is not None and (before.manifest.status, run.manifest.status) == ("completed", "failed"):
            yield f"{' '.join(key)}, seed {seed}: {cause(run.manifest.error)}"


def _paired(base: Side, head: Side) -> tuple[dict[str, Metric], dict[str, dict[int, tuple[float, float]]], dict[str, str]]:
    """Metrics by name, their pairs of values by seed, and the reason why others have no pair."""
    metrics: dict[str, Metric] = {}
    values: dict[str, dict[int, tuple[float, float]]] = {}
    left_out: dict[str, str] = {}
    somewhere: dict[str, bool] = {}
    for key, seed in sorted(base.keys() | head.keys()):
        one, other = base.get((key, seed)), head.get((key, seed))
        if one is None or other is None:
            left_out[f"{' '.join(key)}, seed {seed}"] = f"only the {'head' if one is None else 'base'} has this run"
            continue
        if {one.manifest.status, other.manifest.status} != {"completed"}:
            continue
        if _configuration(one) != _configuration(other):
            raise BundleError(f"{one.path} and {other.path} cannot be compared: their configurations differ")
        ours, theirs = ({measure.metric: measure for measure in _measures(run)} for run in (one, other))
        for metric in ours | theirs:
            name, mine, yours = " ".join((*key, metric)), ours.get(metric), theirs.get(metric)
            if mine is None or yours is None:
                left_out.setdefault(name, f"only the {'head' if mine is None else 'base'} has it with seed {seed}")
            elif not (mine.value > 0 and yours.value > 0):
                left_out.setdefault(name, f"not positive with seed {seed}: it has no ratio")
            else:
                metrics[name] = Metric(name, metric, yours.unit, yours.better, {})
                reached = mine.reached or yours.reached
                somewhere[name] = somewhere.get(name, False) or reached
                # If neither reached it, the two are a tie, however long each was watched.
                values.setdefault(name, {})[seed] = (mine.value, yours.value if reached else mine.value)
    for name in (name for name, reached in somewhere.items() if not reached):
        del metrics[name], values[name]
        left_out[name] = "no run reached it"
    return metrics, values, left_out


def _same_machine(bundles: list[Bundle], refused: str) -> None:
    first = bundles[0].manifest.environment
    for one in bundles:
        for key in MACHINE:
            mine, other = first.get(key), one.manifest.environment.get(key)
            near = key == "memory_bytes" and mine and other and abs(math.log(mine / other)) < MEMORY_TOLERANCE
            if mine != other and not near:
                raise BundleError(f"{refused}: {key} is {mine} in one run, {other} in another ({one.path})")


def _key(b: Bundle) -> Key:
    m = b.manifest
    parts = [m.suite, m.workload]
    parts += [] if m.explorers is None else [f"n{m.explorers}"]
    parts += [] if m.scaling is None else [m.scaling, f"nodes{m.nodes}"]
    return (*parts, label_of(b))


def _configuration(b: Bundle) -> dict[str, Any]:
    return {key: value for key, value in b.manifest.configuration.items() if key != OWN}


def _measures(b: Bundle) -> Iterator[Measure]:
    """Values of a completed run that the gate compares."""
    try:
        match b.manifest.suite:
            case "transmission":
                for row in transmission.transfers([b]).to_dict("records"):
                    for name, unit, better in TRANSFERS:
                        if math.isfinite(value := float(row[name])):
                            yield Measure(f"{row['size_bytes']} bytes: {name}", unit, better, value)
            case scaling.SUITE:
                metrics = scaling.understand(b).metrics
                for name, unit, better in SCALING:
                    if (rate := metrics[name]) is not None:
                        yield Measure(name, unit, better, rate)
            case _:
                yield from _training(b)
    except ValueError as error:
        raise BundleError(str(error)) from error


def _training(b: Bundle) -> Iterator[Measure]:
    run = convergence.understand(b)
    yield Measure("production_steps_per_s", "steps/s", "higher", run.production_steps_per_s)
    if len(run.training):
        yield Measure("final_training_return", "return", "higher", float(run.training["mean_return"].iloc[-1]))
    for kind, crossing in run.crossings.items():
        # A run that did not get there took at least as long as it was watched.
        seconds = run.measured_s if crossing is None else crossing.seconds
        yield Measure(f"{kind}_time_to_threshold_s", "s", "lower", seconds, crossing is not None)
