"""Predicts what disciplines give on workloads whose simulators and learner wait: `python -m benchmarks.predicted WORKLOAD...`.

`--measured FILE` sets the predictions beside a sealed session, and names what was missed.

The roles run in the simulated world with the delays that a workload states, on a machine that takes no time itself. So a
prediction needs no measurement, and can be written down before one. Only workloads with `simulator` and `update_seconds` can be
predicted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, geometric_mean

from baselines.system import SYSTEMS, Task
from baselines.tianji import SameCode
from programs.cli import ConfigError
from suites.disciplines import analysis
from suites.disciplines.forecast import predicted
from suites.disciplines.sweep import SYSTEMS as SWEPT
from suites.records import archive
from suites.records.bundle import BundleError
from suites.session import catalogue
from suites.staleness import analysis as staleness

RATIO_WITHIN, AGE_WITHIN = 0.1, 0.5
"""A prediction is right within this share of the measured ratio, and within so many rounds of the measured age."""


@dataclass(frozen=True)
class Measured:
    """What a session gave for one system: throughput over the first system's, paired by block, and the age of samples."""

    ratio: float
    age_rounds: float


def measured(file: Path, reference: str) -> dict[str, Measured]:
    """Read a sealed session, by system."""
    rates: dict[str, dict[int, list[float]]] = {}
    ages: dict[str, list[float]] = {}
    for one in archive.read(file):
        rate, age = (
            analysis.rate(one, "samples_consumed_unique", "learner"),
            staleness.histogram(one, "learner_age_rounds"),
        )
        if rate is None or not age:
            continue
        rates.setdefault(one.manifest.system, {}).setdefault(one.manifest.block, []).append(rate)
        ages.setdefault(one.manifest.system, []).append(sum(n * count for n, count in age.items()) / sum(age.values()))
    found = {}
    for name, by_block in rates.items():
        # A system that runs twice has two runs in a block.
        pairs = [fmean(own) / fmean(rates[reference][block]) for block, own in by_block.items() if block in rates[reference]]
        found[name] = Measured(geometric_mean(pairs), fmean(ages[name]))
    return found


def table(workload: str, systems: Sequence[str], file: Path | None = None) -> str:
    """Predictions as a Markdown table; ratios are to the first system.

    Parameters
    ----------
    file
        a sealed session, whose values stand beside the predictions.
    """
    loaded = catalogue.load(workload)
    lines = [f"| `{workload}` | over `{systems[0]}` | steps/s | mean age, rounds |", "|---|---|---|---|"]
    told = {} if file is None else measured(file, systems[0])
    if file is not None:
        lines = [
            f"| `{workload}` | over `{systems[0]}` | measured | mean age, rounds | measured | missed |",
            "|---|---|---|---|---|---|",
        ]
    first = 0.0
    for name in systems:
        system = SYSTEMS.get(name)()
        if not isinstance(system, SameCode):
            raise ConfigError(f"{name} does not run TianJi's roles")
        if system.unable(loaded) is not None:
            continue
        found = predicted(system.config(Task(name, loaded, 0, (0,))))
        first = first or found.steps_per_s
        ratio = found.steps_per_s / first
        if file is None:
            lines.append(f"| {name} | {ratio:.2f} | {found.steps_per_s:.0f} | {found.age_rounds:.2f} |")
        elif (was := told.get(name)) is not None:
            missed = [what for what, off in _misses(ratio, found.age_rounds, was).items() if off]
            cells = f"{ratio:.2f} | {was.ratio:.2f} | {found.age_rounds:.2f} | {was.age_rounds:.2f} | {', '.join(missed)}"
            lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def _misses(ratio: float, age_rounds: float, was: Measured) -> dict[str, bool]:
    return {
        "throughput": abs(ratio / was.ratio - 1) > RATIO_WITHIN,
        "age": abs(age_rounds - was.age_rounds) > AGE_WITHIN,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table for each workload."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predicted", description="Predict what disciplines give.")
    parser.add_argument("workloads", nargs="+", metavar="WORKLOAD", help="ids or files")
    parser.add_argument("--systems", metavar="A,B,...", help="these systems alone; ratios are to the first")
    parser.add_argument("--measured", type=Path, metavar="FILE", help="a sealed session of the one workload")
    options = parser.parse_args(arguments)
    if options.measured is not None and len(options.workloads) > 1:
        print("predicted: --measured FILE is of one workload; name one", file=sys.stderr)
        return 2
    systems = options.systems.split(",") if options.systems else SWEPT
    try:
        print("\n\n".join(table(workload, systems, options.measured) for workload in options.workloads))
    except (ConfigError, BundleError) as error:
        print(f"predicted: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
