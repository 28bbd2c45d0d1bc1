"""`python -m baselines list | check NAME [--only PART] [--workload FILE.toml]`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from baselines import system
from baselines.workload import Workload
from programs.cli import DONE, FAILED, ConfigError, OneLineParser, run
from tianji.settings import convert, read_toml

if TYPE_CHECKING:
    from baselines.certificate import Equivalence

WORKLOADS = Path(__file__).parents[1] / "suites" / "workloads"
"""Where the project keeps workload files: data, which any package may read."""
CERTIFICATE, CONFORMANCE = PARTS = ("certificate", "conformance")


def parser() -> OneLineParser:
    """The command line."""
    top = OneLineParser(prog="baselines", description="The systems of the comparison.")
    commands = top.add_subparsers(dest="command", required=True, metavar="list|check")
    commands.add_parser("list", help="systems, and whether they can run here")
    check = commands.add_parser("check", help="the equivalence certificate of a system, and whether it keeps the contract")
    check.add_argument("name", metavar="NAME", help="a system; `list` shows all")
    check.add_argument("--workload", type=Path, action="append", metavar="FILE", help="TOML or JSON (default: every workload)")
    check.add_argument("--only", choices=PARTS, help="one part (default: both; the certificate with --workload or --json)")
    check.add_argument("--json", action="store_true", help="print the certificate's findings as JSON")
    return top


def findings(name: str, workload: Workload) -> list[Equivalence]:
    """Compare one system with the reference on one workload."""
    from baselines import certificate  # It imports torch, which takes seconds and which no other command needs.

    frozen = certificate.freeze(workload)
    evidence = system.get(name).certify(frozen)
    return certificate.compare(workload.id, name, evidence or {}, certificate.reference(frozen))


def _read(path: Path) -> Workload:
    """A workload from TOML, or from JSON as a session keeps it."""
    if path.suffix != ".json":
        return convert(read_toml(path), Workload, str(path))
    try:
        return convert(msgspec.json.decode(path.read_bytes()), Workload, str(path))
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: not a workload: {error}") from None


def check(options: Any) -> int:
    """Print the certificate, then what the conformance kit found; exit status 1 where something differs or failed."""
    if reason := system.get(options.name).available():
        raise ConfigError(f"system {options.name} cannot run here: {reason}")
    of_certificate = options.workload is not None or options.json
    if options.only == CONFORMANCE and of_certificate:
        raise ConfigError("--only conformance: --workload and --json are for the certificate; leave them out")
    done = DONE
    if options.only != CONFORMANCE:
        done = certify(options)
    if options.only == CONFORMANCE or (options.only is None and not of_certificate):
        done = max(done, conform(options.name))
    return done


def conform(name: str) -> int:
    """Print one line for each check of the conformance kit; exit status 1 where one failed."""
    from baselines.conformance import kit

    failed = False
    for found in kit.conform(name, system.get(name)):
        print(found, flush=True)
        failed = failed or found.failed is not None
    return FAILED if failed else DONE


def certify(options: Any) -> int:
    """Print what is equal; exit status 1 where something differs."""
    interpreter = system.get(options.name).interpreter()
    if interpreter != [sys.executable]:
        # It cannot be imported here: ask its own Python.
        files = [part for file in options.workload or () for part in ("--workload", str(file))]
        command = ["check", options.name, "--only", CERTIFICATE, *files, *(["--json"] if options.json else [])]
        return subprocess.run([*interpreter, "-m", "baselines", *command], check=False).returncode
    rows = []
    for path in options.workload or sorted(WORKLOADS.glob("*.toml")):
        workload = _read(path)
        reason = system.get(options.name).unable(workload)
        if reason is None and not workload.certified:
            reason = "only systems of one code train it"
        if reason is None:
            try:
                rows += findings(options.name, workload)
            except ConfigError as missing:
                # An environment that is not installed here: the other workloads are shown all the same.
                if options.workload:
                    raise
                print(f"{workload.id}  left out: {missing}", file=sys.stderr)
        elif options.workload:
            raise ConfigError(f"system {options.name}: no certificate on {workload.id}: {reason}")
    if options.json:
        print(msgspec.json.encode(rows).decode())
    else:
        for row in rows:
            verdict = {True: "equal", False: "DIFFERS", None: "not shown"}[row.equal]
            error = "" if row.error is None else f" (largest difference {row.error:.1e}, largest value {row.scale:.3g})"
            print(f"{row.workload}  {row.quantity:10}  {verdict}{error}")
    return DONE if all(row.equal is not False for row in rows) else FAILED


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    if options.command == "check":
        return check(options)
    for name in system.names():
        found = system.get(name)
        reason = found.available()
        print(f"{name}: {found.title}{f' (cannot run here: {reason})' if reason else ''}")
    return DONE


if __name__ == "__main__":
    sys.exit(run("baselines", main))
