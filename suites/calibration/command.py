"""`tianji-bench calibrate`: the command line, and what it refuses."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from programs.cli import DONE, FAILED, ConfigError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tianji.simulation.calibration import Calibration

ABOUT = "measure what work takes on this machine, for predictions by the simulated world"
SECONDS = 6.0
MOST_SECONDS = 600.0


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji-bench`."""
    one = commands.add_parser("calibrate", help=ABOUT, description=f"{ABOUT[0].upper()}{ABOUT[1:]}.")
    one.set_defaults(run=run)
    one.add_argument("--out", type=Path, required=True, metavar="FILE", help="a new file, such as calibration.json")
    one.add_argument(
        "--workloads", metavar="W,...", help="workloads, or paths to .toml files (default: those of the suite scaling)"
    )
    one.add_argument("--seconds", type=float, metavar="S", help=f"of each of two runs of a workload (default: {SECONDS:g})")
    one.add_argument(
        "--cells",
        type=Path,
        metavar="FILE",
        help="measure nothing: work is that of this sealed session of the suite scaling, on one and two nodes",
    )
    one.add_argument("--machine", type=Path, metavar="FILE", help="with --cells: that this command wrote on the same machine")


def run(options: Namespace) -> int:
    """Measure, or read recorded cells, and write the file; exit status 1 when something could not be measured."""
    if options.out.exists():
        raise ConfigError(f"--out {options.out}: exists; name a new file")
    if not options.out.parent.is_dir():
        raise ConfigError(f"--out {options.out}: there is no folder {options.out.parent}")
    if options.cells is None and options.machine is not None:
        raise ConfigError("--machine: only with --cells; otherwise this machine is measured")
    made = measured(options) if options.cells is None else from_cells(options)
    if made is None:
        return FAILED
    made.save(options.out)
    print(f"calibration: {options.out}")
    return DONE


def from_cells(options: Namespace) -> Calibration:
    """A calibration with the work of recorded cells."""
    if options.workloads is not None or options.seconds is not None:
        raise ConfigError("--cells: nothing is measured, so give neither --workloads nor --seconds")
    if options.machine is None:
        raise ConfigError("--cells: give the calibration of the machine with --machine")
    from suites.calibration.recorded import calibrated
    from suites.records import archive
    from suites.records.bundle import BundleError
    from tianji.simulation.calibration import load

    base = load(options.machine)
    try:
        return calibrated(base, archive.read(options.cells))
    except BundleError as error:
        raise ConfigError(f"--cells: {error}") from None


def measured(options: Namespace) -> Calibration | None:
    """A calibration of this machine; None if something could not be measured, which was told."""
    seconds = SECONDS if options.seconds is None else options.seconds
    if not 0 < seconds <= MOST_SECONDS:
        raise ConfigError(f"--seconds {seconds:g}: give a number above 0, at most {MOST_SECONDS:g}")
    # What it needs takes a while to import, and lines on wrong input need not wait for it.
    from suites.calibration.measuring import Failed, calibrate
    from suites.scaling.sweep import EXPERIMENTS
    from suites.session import catalogue
    from tianji.launch.events import RoleFailed

    names = options.workloads.split(",") if options.workloads else [one.workload for one in EXPERIMENTS.values()]
    workloads = [catalogue.load(name) for name in dict.fromkeys(names)]
    cores = tuple(sorted(os.sched_getaffinity(0)))
    try:
        return calibrate(workloads, seconds, cores, lambda line: print(line, flush=True))
    except (Failed, RoleFailed) as error:
        print(f"tianji-bench: {error}", file=sys.stderr)
        return None
