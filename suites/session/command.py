"""`tianji-bench run`: the command line, and what it refuses."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from programs.cli import DONE, FAILED, ConfigError
from suites.records import predictions, tuned
from suites.records.bundle import BundleError
from suites.records.causes import cause
from suites.records.limits import Text
from suites.records.statement import MOST_LOOKS
from suites.session import runner
from suites.session.plan import Plan
from suites.session.suite import SUITES, Request, Suite
from suites.tuning.sweep import FIRST_SEED

if TYPE_CHECKING:
    from argparse import _SubParsersAction

MOST_NODES = 64


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji-bench`."""
    one = commands.add_parser("run", help="run suites")
    one.set_defaults(run=run)
    one.add_argument("suites", nargs="+", metavar="SUITE", help=f"one or more of {', '.join(SUITES.names())}")
    profiles = "smoke, standard or paper, of most suites; `list` shows them"
    one.add_argument("--profile", default="smoke", metavar="NAME", help=f"how much is run: {profiles} (default: %(default)s)")
    one.add_argument("--systems", metavar="A,B,...", help="these systems alone (default: those of the profile)")
    one.add_argument("--workloads", metavar="X,Y,...", help="these workloads alone (default: those of the profile)")
    one.add_argument("--seeds", type=int, metavar="K", help="blocks, each with its own seed (default: as the profile says)")
    one.add_argument(
        "--first-seed", type=int, default=0, metavar="S", help="seed of the first block; others count up (default: %(default)s)"
    )
    one.add_argument("--once", action="store_true", help="no system runs twice: the session then has no noise floor")
    one.add_argument("--testbed", metavar="NAME", help="local, netns or ray alone (default: all that the profile asks for)")
    one.add_argument(
        "--nodes", metavar="N,M,...", help="numbers of nodes, for the suite scaling (default: those of the profile)"
    )
    one.add_argument(
        "--among",
        metavar="N",
        help="nodes that are there in every run of the suite scaling; those left over are busy with runs that take no part "
        "(default: the largest number of nodes)",
    )
    one.add_argument("--for", dest="claim", metavar="TEXT", help="what the session is for; its stated plan records it")
    one.add_argument(
        "--looks",
        type=int,
        default=1,
        metavar="N",
        help="looks at results until the end (default: %(default)s)",
    )
    one.add_argument("--busy", action="store_true", help="begin although the machine is not idle; the stated plan records it")
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder for the session")
    one.add_argument("--resume", action="store_true", help="go on with the session in --out, block by block")
    one.add_argument("--dry-run", action="store_true", help="check everything, print the plan, and start nothing")
    one.add_argument(
        "--tuned",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="run in the open division, with the settings that `tune` chose: a file for each system and workload",
    )
    one.add_argument(
        "--predictions", type=Path, metavar="FILE", help="what `predict` wrote of this profile; the stated plan records it"
    )


def _one_of(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ConfigError(f"unknown {what} {name!r}; known: {', '.join(known)}")


def _sizes(text: str | None, suite: Suite) -> tuple[int, ...] | None:
    """Numbers of nodes."""
    if text is None:
        return None
    if not suite.sized:
        raise ConfigError(f"--nodes {text}: suite {suite.name} does not ask what the number of nodes does")
    try:
        sizes = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        sizes = (0,)
    if not 1 <= sizes[0] <= sizes[-1] <= MOST_NODES:
        raise ConfigError(f"--nodes {text}: give numbers from 1 to {MOST_NODES}, such as 1,2,4")
    return sizes


def _among(text: str | None, suite: Suite) -> int | None:
    """Number of nodes that are there in every run."""
    if text is None:
        return None
    if not suite.sized:
        raise ConfigError(f"--among {text}: suite {suite.name} does not ask what the number of nodes does")
    if not text.isdecimal() or not 1 <= int(text) <= MOST_NODES:
        raise ConfigError(f"--among {text}: give a number from 1 to {MOST_NODES}")
    return int(text)


def request(options: Namespace, suite: Suite) -> Request:
    """Request to a suite from the command line."""
    _one_of("profile", options.profile, list(suite.profiles))
    if options.testbed is not None:
        _one_of("testbed", options.testbed, suite.testbeds)
    names = tuple(options.systems.split(",")) if options.systems else None
    if names is not None and len(set(names)) < len(names):
        raise ConfigError(f"--systems {options.systems}: names a system twice")
    if options.seeds is not None and options.seeds < 1:
        raise ConfigError(f"--seeds {options.seeds}: at least 1 is needed")
    if options.first_seed < 0:
        raise ConfigError(f"--first-seed {options.first_seed}: seeds count from 0")
    if not 1 <= options.looks <= MOST_LOOKS:
        raise ConfigError(f"--looks {options.looks}: give a number from 1 to {MOST_LOOKS}")
    try:
        msgspec.convert(options.claim, Text | None)
    except msgspec.ValidationError:
        raise ConfigError("--for: give one line of at most 300 characters") from None
    if options.tuned and not suite.tunable:
        raise ConfigError(f"--tuned: suite {suite.name} has no open division")
    if options.predictions and not suite.foretold:
        raise ConfigError(f"--predictions: suite {suite.name} states none")
    return Request(
        profile=options.profile,
        systems=names,
        workloads=tuple(options.workloads.split(",")) if options.workloads else None,
        blocks=options.seeds,
        first_seed=options.first_seed,
        once=options.once,
        testbed=options.testbed,
        nodes=_sizes(options.nodes, suite),
        among=_among(options.among, suite),
        cores=tuple(sorted(os.sched_getaffinity(0))),
        claim=options.claim,
        looks=options.looks,
        busy=options.busy,
        tuned=tuple(map(tuned.read, options.tuned or ())),
        predictions=_foretold(options.predictions),
    )


def _foretold(file: Path | None) -> predictions.Predictions | None:
    try:
        return None if file is None else predictions.read(file)
    except BundleError as error:
        raise ConfigError(f"--predictions {error}") from None


def run(options: Namespace) -> int:
    """Run sessions, one for each suite; exit status 1 when a cell failed."""
    if len(set(options.suites)) < len(options.suites):
        raise ConfigError(f"{' '.join(options.suites)}: names a suite twice")
    # Every choice is checked before anything is written.
    suites = [SUITES.get(name)() for name in options.suites]
    plans = [(suite, *suite.plan(request(options, suite))) for suite in suites]
    if any(cell.seed >= FIRST_SEED for _, plan, _ in plans for cell in plan.cells):
        raise ConfigError(
            f"--first-seed {options.first_seed}: seeds from {FIRST_SEED} on are for tuning, and no result has them"
        )
    folders = [options.out if len(plans) == 1 else options.out / suite.name for suite, _, _ in plans]
    if len(plans) > 1:
        if (options.out / runner.SESSION).exists():
            raise ConfigError(f"--out {options.out}: holds a session of one suite; name a new folder")
        if options.resume and not any(folder.exists() for folder in folders):
            raise ConfigError(f"--out {options.out}: there is nothing to resume; leave --resume out")
    status = DONE
    for (suite, plan, skipped), out in zip(plans, folders, strict=True):
        for line in skipped:
            print(f"tianji-bench: skipped: {line}", file=sys.stderr)
        resume = options.resume and (len(plans) == 1 or out.exists())
        if options.dry_run:
            from suites.session.preview import preview

            print("\n".join(preview(suite, runner.find_session(out, plan, resume) or plan, out)))
        elif run_session(suite, plan, out, resume=resume) != DONE:
            status = FAILED
    if options.dry_run:
        print("dry run: nothing was started or written")
    return status


def run_session(suite: Suite, wanted: Plan, out: Path, *, resume: bool) -> int:
    """Run one session, or what is left of it."""
    begun = runner.open_session(out, wanted, resume)
    try:
        suite.before(begun, out)
        manifests = runner.run(suite, begun, out)
    except KeyboardInterrupt:
        print(f"interrupted; finished blocks are kept: add --resume to go on with {out}", file=sys.stderr)
        raise
    failed = [m for m in manifests if m.status != "completed"]
    for m in failed:
        print(
            f"tianji-bench: {m.workload}, block {m.block}, {m.system}: {m.status}: {cause(m.error)}",
            file=sys.stderr,
        )
    return FAILED if failed else DONE
