"""`tianji-bench tune`: the command line, and what it refuses."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from programs.cli import DONE, FAILED, ConfigError
from suites.records.causes import cause
from suites.records.tuned import FILE, MOST_TRIALS, Trial, Tuned
from suites.tuning import sweep

if TYPE_CHECKING:
    from argparse import _SubParsersAction

ABOUT = "choose the settings of a system on a workload, for the open division"


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji-bench`."""
    one = commands.add_parser("tune", help=ABOUT, description=f"{ABOUT[0].upper()}{ABOUT[1:]}.")
    one.set_defaults(run=run)
    one.add_argument("system", metavar="SYSTEM", help="the system; `list` shows them")
    one.add_argument("workload", metavar="WORKLOAD", help="the workload, or a path to a .toml file")
    one.add_argument("--trials", type=int, required=True, metavar="N", help=f"settings to try, at most {MOST_TRIALS}")
    one.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of the sampler and of the trials (default: %(default)s)"
    )
    one.add_argument("--busy", action="store_true", help="begin although the machine is not idle; the stated plan records it")
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help=f"a new folder for the trials and {FILE}")
    one.add_argument("--resume", action="store_true", help="go on with the tuning in --out, trial by trial")


def run(options: Namespace) -> int:
    """Run the trials and write what they speak for; exit status 1 when nothing can be chosen."""
    if not 1 <= options.trials <= MOST_TRIALS:
        raise ConfigError(f"--trials {options.trials}: give a number from 1 to {MOST_TRIALS}, the same for every system")
    if not 0 <= options.seed <= sweep.MOST_SEED:
        raise ConfigError(f"--seed {options.seed}: give a number from 0 to {sweep.MOST_SEED}")
    # What it needs takes a while to import, and lines on wrong input need not wait for it.
    from suites.session import runner
    from suites.session.suite import Request
    from suites.tuning.run import Tuning, seed_of
    from suites.tuning.search import sampler

    sampler(options.seed)
    suite = Tuning()
    request = Request(
        profile=sweep.NAME,
        systems=(options.system,),
        workloads=(options.workload,),
        blocks=options.trials,
        first_seed=options.seed,
        once=True,
        testbed=None,
        cores=tuple(sorted(os.sched_getaffinity(0))),
        claim=f"settings of {options.system} for the open division, {options.trials} trials",
        busy=options.busy,
    )
    plan, _ = suite.plan(request)
    begun = runner.find_session(options.out, plan, options.resume)
    if begun is not None and begun.cells != plan.cells:
        raise ConfigError(
            f"--out {options.out}: was begun with --seed {seed_of(begun)}; ask for the same, or name a new folder"
        )
    begun = runner.open_session(options.out, plan, options.resume)
    suite.before(begun, options.out)
    try:
        runner.run(suite, begun, options.out)
    except KeyboardInterrupt:
        print(f"interrupted; finished trials are kept: add --resume to go on with {options.out}", file=sys.stderr)
        raise
    tuned = suite.result(begun)
    print("\n".join(table(suite.record(begun))))
    if tuned is None:
        print("tianji-bench: each setting of the last rung has a run that failed: nothing is chosen", file=sys.stderr)
        return FAILED
    file = options.out / FILE
    file.write_bytes(msgspec.json.format(msgspec.json.encode(tuned), indent=1) + b"\n")
    print(f"chosen: {words(tuned)}\n{file}")
    return DONE


def table(record: tuple[Trial, ...]) -> Iterator[str]:
    """A line for each run."""
    for one in record:
        if one.seconds is not None:
            came = f"reached in {one.seconds:.2f} s"
        elif one.status != "completed":
            came = f"{one.status}: {cause(one.error)}"
        else:
            came = "not reached" + ("" if one.best_return is None else f", best return {one.best_return:.1f}")
        yield f"{one.budget_share:g} of the budget, {words(one)}: {came}"


def words(chosen: Trial | Tuned) -> str:
    """A setting in words."""
    return ", ".join(f"{name} {value}" for name, value in chosen.options.items())
