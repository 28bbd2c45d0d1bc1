"""`tianji-bench gate`: the command line, and what it refuses."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from argparse import Namespace
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from programs.cli import DONE, FAILED, UNUSABLE, ConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction
    from collections.abc import Iterator

    from gate.checkouts import Revision
    from gate.session import Measurement
    from reports.regression.outcome import Outcome
    from suites.statistics.comparison import Comparison, Side
    from suites.statistics.gate import Rule

ABOUT = "compare two revisions of any project: run a benchmark in turns from checkouts of both"
FORMS = ("json", "junit", "markdown", "comment")
STATUSES = {"worse": FAILED, "unusable": UNUSABLE}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}")
SETUP_S, RUN_S = 1800.0, 600.0
SIZE, MOST = 0.05, 20
"""Defaults of the rule, as `suites.statistics.gate.Rule` has them; that module takes a while to import."""


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji-bench`."""
    arguments(commands.add_parser("gate", help=ABOUT, description=f"{ABOUT[0].upper()}{ABOUT[1:]}."))


def arguments(one: ArgumentParser) -> None:
    """What the command takes."""
    one.set_defaults(run=run)
    one.add_argument("--base", required=True, metavar="REV", help="the revision to compare with, such as origin/main")
    one.add_argument(
        "--head", default=".", metavar="REV", help="the revision in question; . is the working tree (default: %(default)s)"
    )
    one.add_argument(
        "--repo", type=Path, default=Path(), metavar="DIR", help="the repository, or a folder in it (default: %(default)s)"
    )
    one.add_argument(
        "--setup", metavar="CMD", help="shell command that runs once in each checkout, before anything is measured"
    )
    kinds = one.add_mutually_exclusive_group()
    kinds.add_argument("--time", action="store_true", help="the only metric is the wall-clock time of CMD")
    kinds.add_argument(
        "--pytest-benchmark", type=Path, metavar="FILE", help="metrics are in the file that pytest-benchmark writes"
    )
    one.add_argument(
        "--size", type=float, default=SIZE, metavar="S", help="smallest change that matters: a share (default: %(default)s)"
    )
    one.add_argument("--most", type=int, default=MOST, metavar="N", help="limit of rounds (default: %(default)s)")
    one.add_argument(
        "--turns", type=int, metavar="N", help="runs on either side in a round (as many as fit into 2 s, up to 10)"
    )
    one.add_argument("--warm-ups", type=int, default=1, metavar="N", help="runs that do not count (default: %(default)s)")
    one.add_argument(
        "--timeout", type=float, default=RUN_S, metavar="S", help="deadline of a run in seconds (default: %(default)s)"
    )
    one.add_argument(
        "--setup-timeout", type=float, default=SETUP_S, metavar="S", help="the same of --setup (default: %(default)s)"
    )
    one.add_argument("--out", type=Path, metavar="DIR", help="new folder for the record, logs and all files below")
    one.add_argument("--json", type=Path, metavar="FILE", help="every metric, for programs")
    one.add_argument("--junit", type=Path, metavar="FILE", help="a test case for each metric")
    one.add_argument("--markdown", type=Path, metavar="FILE", help="a summary")
    one.add_argument("--comment", type=Path, metavar="FILE", help="the summary as a comment on a pull request")
    one.add_argument(
        "--name", default="gate", metavar="NAME", help="tells comments of several gates apart (default: %(default)s)"
    )
    one.add_argument("command_line", nargs="+", metavar="CMD", help="after --: the benchmark and its arguments")


def run(options: Namespace) -> int:
    """Compare two revisions; 0 nothing is worse, 1 something is, 2 they cannot be compared."""
    if not hasattr(os, "pidfd_open"):
        raise ConfigError("this command needs Linux")
    _refuse_bad_numbers(options)
    _refuse_bad_places(options)
    from gate.checkouts import WORKING_TREE, Repository, checked_out
    from gate.execution import CommandFailed
    from reports import terminal
    from reports.regression import outcome

    rule = _rule(options)
    measurement = _measurement(options)
    repository = Repository(options.repo)
    revisions: dict[Side, Revision] = {
        "base": repository.revision("--base", options.base),
        "head": repository.working_tree() if options.head == WORKING_TREE else repository.revision("--head", options.head),
    }
    for side, revision in revisions.items():
        print(f"{side}: {revision.title}", flush=True)
    if revisions["base"].commit == revisions["head"].commit:
        print("both are the same commit: every difference is noise", flush=True)
    environments = {side: _environment(revision) for side, revision in revisions.items()}
    with _folder(options.out) as out:
        try:
            with checked_out(repository, revisions) as folders:
                came = outcome.of(_measured(options, folders, environments, measurement, rule, out))
        except CommandFailed as error:
            reason = str(error)
            came = outcome.unusable(reason, {str(side): found for side, found in environments.items()}, rule.size, rule.error)
            if options.out is None:
                reason += " (--out DIR keeps the logs)"
            _write(came, options)
            raise ConfigError(reason) from error
        _write(came, options)
    terminal.tell(came)
    return STATUSES.get(came.verdict, DONE)


def _measured(
    options: Namespace,
    folders: dict[Side, Path],
    environments: dict[Side, dict[str, Any]],
    measurement: Measurement,
    rule: Rule,
    out: Path,
) -> Comparison:
    """Set both checkouts up, then measure them."""
    from gate import execution
    from gate.session import Session

    session = Session(folders, environments, measurement, rule, out, say=lambda line: print(line, flush=True))
    if options.setup:
        for side, folder in folders.items():
            command = ["/bin/sh", "-c", options.setup]
            done = execution.run(f"the {side}, --setup", command, folder, out / "logs" / f"setup-{side}", options.setup_timeout)
            print(f"{side}: set up in {done.seconds:.0f} s", flush=True)
    return session.run()


def _refuse_bad_numbers(options: Namespace) -> None:
    for name, least in (("timeout", 0.0), ("setup_timeout", 0.0)):
        if not least < getattr(options, name) <= 1e6:
            raise ConfigError(f"--{name.replace('_', '-')} {getattr(options, name):g}: give seconds above 0")
    if options.turns is not None and not 1 <= options.turns <= 1000:
        raise ConfigError(f"--turns {options.turns}: give a number from 1 to 1000")
    if not 0 <= options.warm_ups <= 1000:
        raise ConfigError(f"--warm-ups {options.warm_ups}: give a number from 0 to 1000")
    if not 3 <= options.most <= 1000:
        raise ConfigError(f"--most {options.most}: give a number from 3 to 1000")
    if not NAME.fullmatch(options.name):
        raise ConfigError(f"--name {options.name}: give up to 40 letters, digits and dashes")


def _refuse_bad_places(options: Namespace) -> None:
    """Refuse to write over anything, before any work is done."""
    if options.out is not None and options.out.exists():
        raise ConfigError(f"--out {options.out}: exists; name a new folder")
    for kind in FORMS:
        file: Path | None = getattr(options, kind)
        if file is not None and (file.exists() or not file.parent.is_dir()):
            raise ConfigError(f"--{kind} {file}: {'exists; name a new file' if file.exists() else 'its folder does not exist'}")
    file = options.pytest_benchmark
    if file is not None and (file.is_absolute() or ".." in file.parts or not file.name):
        raise ConfigError(f"--pytest-benchmark {file}: give a path below the folder that the command runs in")


def _rule(options: Namespace) -> Rule:
    from suites.statistics.gate import Rule

    try:
        return Rule(size=options.size, looks=(*(look for look in Rule.looks if look < options.most), options.most))
    except ValueError as error:
        raise ConfigError(f"--size {options.size:g}: {error}") from None


def _measurement(options: Namespace) -> Measurement:
    from gate.metrics import PytestBenchmark, Source, WallClock
    from gate.session import Measurement

    source = Source()
    if options.time:
        source = WallClock()
    elif options.pytest_benchmark is not None:
        source = PytestBenchmark(options.pytest_benchmark)
    return Measurement(options.command_line, source, options.timeout, options.warm_ups, options.turns)


def _environment(revision: Revision) -> dict[str, Any]:
    """The machine, and the revision in the place of this project's own."""
    from suites.records import machine

    found = machine.manifest()
    for own in ("packages", "threads_per_role"):
        del found[own]
    return found | {
        "revision": revision.title,
        "git_commit": revision.shown or revision.commit,
        "git_dirty": bool(revision.changes),
    }


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """Where record and logs go: a folder that is made, or one that is removed again."""
    with ExitStack() as stack:
        folder = out
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tj")))
        try:
            (folder / "logs").mkdir(parents=True)
        except OSError as error:
            raise ConfigError(f"--out {out}: {error.strerror}") from None
        yield folder


def _write(came: Outcome, options: Namespace) -> None:
    """Write the outcome in every form that is asked for."""
    from reports.regression import outcome

    texts = {kind: form(came) for kind, form in outcome.FORMS.items()} | {"comment": outcome.comment(came, options.name)}
    names = {"json": "gate.json", "junit": "gate.xml", "markdown": "gate.md", "comment": "comment.md"}
    for kind, text in texts.items():
        places = [getattr(options, kind), None if options.out is None else options.out / names[kind]]
        for place in (place for place in places if place is not None):
            try:
                place.write_text(text, encoding="utf-8")
            except OSError as error:
                print(f"tianji-bench: --{kind} {place}: {error.strerror}", file=sys.stderr)
