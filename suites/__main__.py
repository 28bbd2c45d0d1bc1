"""`python -m suites list|doctor|run|predict|tune|calibrate|against|gate|pack|submit|validate|sessions`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from programs.cli import DONE, FAILED, ConfigError, OneLineParser
from programs.cli import run as run_command
from programs.completion import add_completion
from programs.registry import Registry
from suites.asynchrony import command as predicting
from suites.calibration import command as calibration
from suites.records import archive, listing, machine, predictions, tuned
from suites.records.bundle import BundleError
from suites.records.limits import Text
from suites.records.statement import MOST_LOOKS
from suites.session import runner
from suites.session.plan import Plan
from suites.session.suite import SUITES, Request, Suite, every
from suites.statistics.gate import Rule
from suites.tuning import command as tuning
from suites.tuning.sweep import FIRST_SEED

MOST_NODES = 64
Reason = Annotated[Text, Meta(min_length=1)]
COMMANDS: Registry[Callable[[Any], None]] = Registry("tianji_bench.commands", {"gate": "gate.command:add"}, "command")
"""Commands of packages above this one, by name: functions that add a parser whose default `run` is the command."""


def parser() -> OneLineParser:
    """The command line."""
    top = OneLineParser(prog="tianji-bench", description="Measure distributed reinforcement-learning systems.")
    add_completion(top)
    commands = top.add_subparsers(
        dest="command",
        required=True,
        metavar="list|doctor|run|predict|tune|calibrate|against|gate|pack|submit|validate|sessions",
    )
    listing = commands.add_parser("list", help="suites, profiles, workloads and systems")
    listing.add_argument("--json", action="store_true", help="print it as JSON, with titles and profiles")
    examine = commands.add_parser("doctor", help="what this machine can and cannot measure")
    examine.add_argument("--brief", action="store_true", help="measure nothing: the noise floor takes a quarter of a minute")
    run = commands.add_parser("run", help="run suites")
    run.add_argument("suites", nargs="+", metavar="SUITE", help=f"one or more of {', '.join(SUITES.names())}")
    profiles = "smoke, standard or paper, of most suites; `list` shows them"
    run.add_argument("--profile", default="smoke", metavar="NAME", help=f"how much is run: {profiles} (default: %(default)s)")
    run.add_argument("--systems", metavar="A,B,...", help="these systems alone (default: those of the profile)")
    run.add_argument("--workloads", metavar="X,Y,...", help="these workloads alone (default: those of the profile)")
    run.add_argument("--seeds", type=int, metavar="K", help="blocks, each with its own seed (default: as the profile says)")
    run.add_argument(
        "--first-seed", type=int, default=0, metavar="S", help="seed of the first block; others count up (default: %(default)s)"
    )
    run.add_argument("--once", action="store_true", help="no system runs twice: the session then has no noise floor")
    run.add_argument("--testbed", metavar="NAME", help="local, netns or ray alone (default: all that the profile asks for)")
    run.add_argument(
        "--nodes", metavar="N,M,...", help="numbers of nodes, for the suite scaling (default: those of the profile)"
    )
    run.add_argument(
        "--among",
        metavar="N",
        help="nodes that are there in every run of the suite scaling; those left over are busy with runs that take no part "
        "(default: the largest number of nodes)",
    )
    run.add_argument("--for", dest="claim", metavar="TEXT", help="what the session is for; its stated plan records it")
    run.add_argument(
        "--looks",
        type=int,
        default=1,
        metavar="N",
        help="looks at results until the end (default: %(default)s)",
    )
    run.add_argument("--busy", action="store_true", help="begin although the machine is not idle; the stated plan records it")
    run.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder for the session")
    run.add_argument("--resume", action="store_true", help="go on with the session in --out, block by block")
    run.add_argument("--dry-run", action="store_true", help="check everything, print the plan, and start nothing")
    run.add_argument(
        "--tuned",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="run in the open division, with the settings that `tune` chose: a file for each system and workload",
    )
    run.add_argument(
        "--predictions", type=Path, metavar="FILE", help="what `predict` wrote of this profile; the stated plan records it"
    )
    predicting.add(commands)
    tuning.add(commands)
    calibration.add(commands)
    against = commands.add_parser(
        "against", help="this revision's parts and another's, in turns, until it is known whether any is worse"
    )
    against.add_argument(
        "--base-python", type=Path, required=True, metavar="FILE", help="interpreter of the other one's environment"
    )
    against.add_argument("--base-tree", type=Path, required=True, metavar="DIR", help="its checkout")
    against.add_argument("--parts", metavar="A,B,...", help="these alone (default: all that both have)")
    against.add_argument("--micro", action="store_true", help="the micro benchmarks, too")
    against.add_argument(
        "--size",
        type=float,
        default=Rule.size,
        metavar="S",
        help="the smallest difference that matters, as a share (default: %(default)s)",
    )
    against.add_argument("--most", type=int, default=Rule.looks[-1], metavar="N", help="rounds at most (default: %(default)s)")
    against.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder for the comparison")
    COMMANDS.get("gate")(commands)
    pack = commands.add_parser("pack", help="seal a finished session into one Parquet file")
    pack.add_argument("folder", type=Path, metavar="DIR", help="that `run --out` wrote")
    pack.add_argument("--out", type=Path, required=True, metavar="FILE", help="a new file, which ends in .parquet")
    pack.add_argument(
        "--stopped", metavar="WHY", help="seal a session that ended before its plan was done; reports show this reason"
    )
    submission = commands.add_parser("submit", help="check a finished session, seal it, and say how to hand it in")
    submission.add_argument("folder", type=Path, metavar="SESSION_DIR", help="that `run --out` wrote")
    submission.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder for the submission")
    submission.add_argument(
        "--division",
        choices=("closed", "open"),
        default="closed",
        help="closed: the project's workloads, unchanged; open: anything else (default: %(default)s)",
    )
    submission.add_argument("--tuned", action="store_true", help="a system's settings were chosen by hand (default: vanilla)")
    submission.add_argument(
        "--purpose", metavar="TEXT", help="what the session is for, one line (default: suite and workloads)"
    )
    checking = commands.add_parser("validate", help="check sealed sessions, as CI does with submitted ones")
    checking.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a sealed session, which ends in .parquet")
    checking.add_argument(
        "--earlier", action="store_true", help="sealed by an earlier version: what such a session lacks is a note, and no error"
    )
    checking.add_argument(
        "--heads", action="store_true", help="read the manifests alone: fast, and no proof that a file is whole"
    )
    sessions = commands.add_parser("sessions", help="what the sealed sessions of a folder are, and are for")
    sessions.add_argument("folder", type=Path, metavar="DIR", help="a folder of sealed sessions, such as results/reference")
    sessions.add_argument("--machines", action="store_true", help="list the machines they were measured on instead")
    sessions.add_argument("--write", action="store_true", help="bring both tables of the folder's README.md up to date")
    return top


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


def request(options: Any, suite: Suite) -> Request:
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


def run(options: Any) -> int:
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
            f"tianji-bench: {m.workload}, block {m.block}, {m.system}: {m.status}: {(m.error or '').splitlines()[-1]}",
            file=sys.stderr,
        )
    return FAILED if failed else DONE


def show_list(options: Any) -> int:
    """Print what there is to run."""
    if options.json:
        rows = {
            "suites": {
                name: {
                    "about": suite.about,
                    "testbeds": suite.testbeds,
                    "profiles": {k: msgspec.to_builtins(p) for k, p in suite.profiles.items()},
                    "workloads": suite.workloads(),
                    "systems": {k: {"title": title, "cannot_run": why} for k, (title, why) in suite.systems().items()},
                }
                for name, suite in every().items()
            }
        }
        print(json.dumps(rows, indent=1))
        return DONE
    for name, suite in every().items():
        print(f"suite {name}: {suite.about}; profiles {', '.join(suite.profiles)}; testbeds {', '.join(suite.testbeds)}")
        for workload, title in suite.workloads().items():
            print(f"  workload  {workload}: {title}")
        for system, (title, why) in suite.systems().items():
            print(f"  system    {system}: {title}{f' (cannot run here: {why})' if why else ''}")
    return DONE


def doctor(options: Any) -> int:
    """Print what this machine can and cannot measure: one screen."""
    from rich.console import Console
    from rich.table import Table

    from suites.session import doctor

    table = Table(title="What this machine can measure", title_justify="left")
    for head in ("", "", ""):
        table.add_column(head)
    for what, state, says in doctor.findings(measure=not options.brief):
        table.add_row(what, state, says, style={"careful": "yellow", "no": "dim"}.get(state))
    lacking: dict[str, list[str]] = {}
    for suite in (suites := every().values()):
        for system, (_, why) in suite.systems().items():
            if why is not None and system not in lacking.setdefault(why, []):
                lacking[why].append(system)
    able = [system for suite in suites for system, (_, why) in suite.systems().items() if why is None]
    table.add_row("systems", "yes", f"{len(set(able))} can run")
    for why, systems in lacking.items():
        table.add_row(", ".join(systems), "no", why, style="dim")
    found = machine.manifest()
    versions = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    table.add_row("versions", "", f"Python {found['python']}, {found['system']} {found['kernel']}, {versions}")
    Console(width=None if sys.stdout.isatty() else 120, highlight=False).print(table)
    return DONE


def pack(options: Any) -> int:
    """Seal a session."""
    try:
        stopped = None if options.stopped is None else msgspec.convert(options.stopped, Reason)
        runs = archive.seal(options.folder, options.out, stopped=stopped)
    except msgspec.ValidationError:
        raise ConfigError("--stopped: give a reason of one line") from None
    except BundleError as error:
        raise ConfigError(str(error)) from error
    print(f"{runs} runs in {options.out}, {options.out.stat().st_size / 1e6:.1f} MB")
    return DONE


def sessions(options: Any) -> int:
    """Print a table of sealed sessions or of machines, in Markdown, or write both into the folder's README."""
    try:
        if options.write:
            print(listing.write(options.folder))
        else:
            print(listing.tables(options.folder)["machines" if options.machines else "sessions"], end="")
    except BundleError as error:
        raise ConfigError(str(error)) from error
    return DONE


def submit(options: Any) -> int:
    """Make a submission."""
    from suites.submission.submit import submit

    return submit(options.folder, options.out, division=options.division, tuned=options.tuned, purpose=options.purpose)


def validate(options: Any) -> int:
    """Validate sealed sessions."""
    from suites.submission.validate import validate

    return validate(options.files, earlier=options.earlier, heads=options.heads)


def against(options: Any) -> int:
    """Measure this revision and another in turns; what comes of it, `tianji-report compare` says."""
    # Whoever only lists suites need not wait for what it imports.
    from suites.components.revision import Revision, RevisionFailed
    from suites.components.session import Session

    for name, path in (("--base-python", options.base_python), ("--base-tree", options.base_tree)):
        if not path.exists():
            raise ConfigError(f"{name} {path}: there is no such {'file' if name == '--base-python' else 'folder'}")
    if options.out.exists():
        raise ConfigError(f"--out {options.out}: exists; name a new folder")
    looks = tuple(look for look in Rule.looks if look < options.most)
    try:
        rule = Rule(size=options.size, looks=(*looks, options.most))
    except ValueError as error:
        raise ConfigError(f"--size {options.size:g} --most {options.most}: {error}") from None
    parts = tuple(options.parts.split(",")) if options.parts else None
    base = Revision("the base", str(options.base_python.absolute()), options.base_tree.absolute())
    head = Revision("this revision", sys.executable, machine.ROOT)
    options.out.mkdir(parents=True)
    try:
        Session(base, head, options.out, rule, parts=parts, with_micro=options.micro).run()
    except RevisionFailed as error:
        print(f"tianji-bench: {error}", file=sys.stderr)
        return FAILED
    print(f"comparison: {options.out}")
    return DONE


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    commands = {"list": show_list, "doctor": doctor, "run": run, "against": against, "pack": pack}
    commands |= {"submit": submit, "validate": validate, "sessions": sessions}
    return commands[options.command](options) if options.command in commands else int(options.run(options))


def console() -> int:
    """The `tianji-bench` command."""
    return run_command("tianji-bench", main)


if __name__ == "__main__":
    sys.exit(console())
