"""`python -m suites list|doctor|run|predict|tune|calibrate|against|gate|pack|thin|submit|validate|sessions`."""

from __future__ import annotations

import json
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
from suites.records import machine
from suites.records.bundle import BundleError
from suites.records.limits import Text
from suites.session import command as running
from suites.session.suite import every
from suites.statistics.gate import Rule
from suites.tuning import command as tuning

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
        metavar="list|doctor|run|predict|tune|calibrate|against|gate|pack|thin|submit|validate|sessions",
    )
    listing = commands.add_parser("list", help="suites, profiles, workloads and systems")
    listing.add_argument("--json", action="store_true", help="print it as JSON, with titles and profiles")
    examine = commands.add_parser("doctor", help="what this machine can and cannot measure")
    examine.add_argument("--brief", action="store_true", help="measure nothing: the noise floor takes a quarter of a minute")
    running.add(commands)
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
    thin = commands.add_parser("thin", help="keep of a sealed session what figures and tables are made of")
    thin.add_argument("file", type=Path, metavar="FILE", help="a sealed session, which ends in .parquet; it stays as it is")
    thin.add_argument("--out", type=Path, required=True, metavar="FILE", help="a new file, which ends in .parquet")
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
    from suites.records import archive

    try:
        stopped = None if options.stopped is None else msgspec.convert(options.stopped, Reason)
        runs = archive.seal(options.folder, options.out, stopped=stopped)
    except msgspec.ValidationError:
        raise ConfigError("--stopped: give a reason of one line") from None
    except BundleError as error:
        raise ConfigError(str(error)) from error
    print(f"{runs} runs in {options.out}, {options.out.stat().st_size / 1e6:.1f} MB")
    return DONE


def thin(options: Any) -> int:
    """Write a session thinned."""
    from suites import thinning

    try:
        runs = thinning.write(options.file, options.out)
    except BundleError as error:
        raise ConfigError(str(error)) from error
    before, after = (file.stat().st_size / 1e6 for file in (options.file, options.out))
    print(f"{runs} runs in {options.out}, {after:.2f} of {before:.2f} MB")
    return DONE


def sessions(options: Any) -> int:
    """Print a table of sealed sessions or of machines, in Markdown, or write both into the folder's README."""
    from suites.records import listing

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
    commands = {"list": show_list, "doctor": doctor, "against": against, "pack": pack, "thin": thin}
    commands |= {"submit": submit, "validate": validate, "sessions": sessions}
    return commands[options.command](options) if options.command in commands else int(options.run(options))


def console() -> int:
    """The `tianji-bench` command."""
    return run_command("tianji-bench", main)


if __name__ == "__main__":
    sys.exit(console())
