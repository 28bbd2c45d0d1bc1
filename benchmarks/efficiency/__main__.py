"""Efficiency of the running system relative to bare loops, as ratios within blocks.

    python -m benchmarks.efficiency [--blocks N] [--seconds S] [--parts sampling,learning,both] [--json FILE]
    python -m benchmarks.efficiency --show FILE

Parts:

- sampling. Environment steps per second of an actor process that sends chunks over shared memory.
  Bare: the loop of environments and inference.
- learning. Optimizer steps per second of a learner process that never lacks samples.
  Bare: the loop of updates.
- both. The complete system with one actor. Bare: both loops side by side in two processes.
  The figure is the mean of the shares of sampling and learning in the same block.

A block is bare and system back to back, with one seed, in fresh processes and alternating order. The program prints geometric
means with 95 % intervals (Student's t on the logarithms of the ratios). `--floor` runs the bare loops twice in each block and
compares them with each other, which shows the differences that occur by chance.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from benchmarks.efficiency.cases import CORES, WORKLOADS, Cell, Part, Side
from benchmarks.efficiency.processes import CellFailed, fresh
from programs.cli import DONE, FAILED, ConfigError, OneLineParser, run
from suites.records import machine
from suites.session import catalogue
from suites.statistics.intervals import paired_ratio

PARTS: tuple[Part, ...] = get_args(Part)
BARE: dict[Part, tuple[Part, ...]] = {"sampling": ("sampling",), "learning": ("learning",), "both": ("sampling", "learning")}
"""The bare loops that a part is held against, side by side."""
UNITS = {"sampling": "steps/s", "learning": "updates/s"}


def block(part: Part, workload: str, number: int, warmup_s: float, seconds: float, floor: bool) -> dict[str, Any]:
    """Each side once, back to back."""

    def cells(parts: Sequence[Part], side: Side) -> list[Cell]:
        return [Cell(of, side, workload, CORES[part], number, warmup_s, seconds) for of in parts]

    sides = {"bare": cells(BARE[part], "bare"), "system": cells([part], "system")}
    if floor:
        sides["again"] = sides["bare"]
    order = list(sides)
    order = order[number % len(order) :] + order[: number % len(order)]
    told = {name: fresh(sides[name]) for name in order}
    ratios = {name: shares(part, told[name], told["bare"]) for name in sides if name != "bare"}
    return {"part": part, "workload": workload, "block": number, "order": order, "ratios": ratios, **told}


def shares(part: Part, measured: Mapping[str, Any], bare: Mapping[str, Any]) -> dict[str, float]:
    """Ratios of rates; the mean of several is what is quoted."""
    each: dict[str, float] = {of: measured[of]["per_second"] / bare[of]["per_second"] for of in BARE[part]}
    return each if len(each) == 1 else {"mean": statistics.fmean(each.values()), **each}


def geometric_mean(ratios: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Geometric mean of ratios within blocks, with a 95 % interval by Student's t on their logarithms if there are enough."""
    found = paired_ratio(ratios, np.ones(len(ratios)))
    assert found.value is not None
    return found.value, found.low, found.high


def summary(blocks: Sequence[Mapping[str, Any]]) -> str:
    """One line on all blocks of a part and workload."""

    def told(side: str) -> str:
        words = []
        for name in blocks[0]["ratios"][side]:
            value, low, high = geometric_mean([b["ratios"][side][name] for b in blocks])
            words.append(f"{name} {value:.3f}" + (f" [{low:.3f} {high:.3f}]" if low is not None else ""))
        return ", ".join(words)

    speeds = []
    for of in BARE[blocks[0]["part"]]:
        bare, system = (statistics.median(b[side][of]["per_second"] for b in blocks) for side in ("bare", "system"))
        speeds.append(f"{bare:,.0f} bare and {system:,.0f} {UNITS[of]}")
    floor = f"; bare over itself: {told('again')}" if "again" in blocks[0]["ratios"] else ""
    return (
        f"{blocks[0]['part']}, {blocks[0]['workload']}: {told('system')}; n = {len(blocks)}; medians {', '.join(speeds)}{floor}"
    )


def chosen(text: str, known: Sequence[str], what: str) -> list[str]:
    """Names from the command line."""
    names = text.split(",")
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown {what} {name!r}; known: {', '.join(known)}")
    return names


def workloads(text: str | None) -> list[str]:
    """Requested workloads, or all whose environments can be made here. The others are printed."""
    known = sorted({workload for some in WORKLOADS.values() for workload in some})
    if text is not None:
        names = chosen(text, known, "workload")
        for name in names:
            usable(name)
        return names
    found = []
    for name in known:
        try:
            usable(name)
            found.append(name)
        except ConfigError as error:
            print(f"{name} is left out: {error}", flush=True)
    return found


def usable(workload: str) -> None:
    """Raise `ConfigError` where a workload cannot be measured here."""
    loaded = catalogue.load(workload)
    loaded.describe()
    loaded.check_device()


def show(path: Path) -> int:
    """Print what a file of figures says.

    Raises
    ------
    ConfigError
        when it is not there, or no such file.
    """
    try:
        blocks = json.loads(path.read_text(encoding="utf-8"))["blocks"]
        kinds = dict.fromkeys((b["part"], b["workload"]) for b in blocks)
        lines = [summary([b for b in blocks if (b["part"], b["workload"]) == kind]) for kind in kinds]
    except OSError as error:
        raise ConfigError(f"--show {path}: {error.strerror}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ConfigError(f"--show {path}: not a file that --json wrote ({type(error).__name__}: {error})") from None
    print("\n".join(lines))
    return DONE


def main(arguments: Sequence[str]) -> int:
    parser = OneLineParser(prog="efficiency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--blocks", type=int, default=8, metavar="N", help="blocks of each part and workload (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, metavar="T", help="seconds of each measurement (default: %(default)s)"
    )
    parser.add_argument("--warmup", type=float, default=0.5, metavar="T", help="seconds before each (default: %(default)s)")
    parser.add_argument("--parts", default=",".join(PARTS), metavar="A,B,...", help="parts to measure (default: %(default)s)")
    parser.add_argument("--workloads", metavar="X,Y,...", help="workloads (default: all that can be measured here)")
    parser.add_argument("--floor", action="store_true", help="hold the bare loops against themselves, too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures of every block go")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: say what such a file holds")
    options = parser.parse_args(arguments)
    if options.show is not None:
        return show(options.show)
    if options.blocks < 1 or options.seconds <= 0 or options.warmup < 0:
        raise ConfigError("--blocks must be at least 1, --seconds more than 0, and --warmup not negative")
    parts, names = chosen(options.parts, PARTS, "part"), workloads(options.workloads)
    told: dict[str, Any] = {"environment": machine.manifest(), "seconds": options.seconds, "warmup_s": options.warmup}
    told["blocks"] = []
    print("system over bare, geometric means of ratios within blocks [95 % interval]", flush=True)
    for part in PARTS:
        for workload in WORKLOADS[part]:
            if part not in parts or workload not in names:
                continue
            blocks = []
            for number in range(options.blocks):
                blocks.append(block(part, workload, number, options.warmup, options.seconds, options.floor))
                if options.json is not None:
                    # Written after every block, so that measurements survive a crash.
                    told["blocks"].append(blocks[-1])
                    options.json.write_text(json.dumps(told, indent=1) + "\n")
            print(summary(blocks), flush=True)
    return DONE


def console(arguments: Sequence[str]) -> int:
    try:
        return main(arguments)
    except CellFailed as error:
        print(f"efficiency: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(run("efficiency", console))
