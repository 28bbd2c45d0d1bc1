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
    one.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="of each of two runs of a workload (default: %(default)s)"
    )


def run(options: Namespace) -> int:
    """Measure, and write the file; exit status 1 when something could not be measured."""
    if options.out.exists():
        raise ConfigError(f"--out {options.out}: exists; name a new file")
    if not options.out.parent.is_dir():
        raise ConfigError(f"--out {options.out}: there is no folder {options.out.parent}")
    if not 0 < options.seconds <= MOST_SECONDS:
        raise ConfigError(f"--seconds {options.seconds:g}: give a number above 0, at most {MOST_SECONDS:g}")
    # What it needs takes a while to import, and lines on wrong input need not wait for it.
    from suites.calibration.measuring import Failed, calibrate
    from suites.scaling.sweep import EXPERIMENTS
    from suites.session import catalogue
    from tianji.launch.supervisor import RoleFailed

    names = options.workloads.split(",") if options.workloads else [one.workload for one in EXPERIMENTS.values()]
    workloads = [catalogue.load(name) for name in dict.fromkeys(names)]
    cores = tuple(sorted(os.sched_getaffinity(0)))
    try:
        found = calibrate(workloads, options.seconds, cores, lambda line: print(line, flush=True))
    except (Failed, RoleFailed) as error:
        print(f"tianji-bench: {error}", file=sys.stderr)
        return FAILED
    found.save(options.out)
    print(f"calibration: {options.out}")
    return DONE
