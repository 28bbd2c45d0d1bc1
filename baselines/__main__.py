"""`python -m baselines list | check NAME [--workload FILE.toml]`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from baselines import certificate, system
from baselines.certificate import Equivalence
from baselines.workload import Workload
from programs.cli import DONE, FAILED, ConfigError, OneLineParser, run
from tianji.settings import convert, read_toml

WORKLOADS = Path(__file__).parents[1] / "suites" / "workloads"
"""Where the project keeps workload files: data, which any package may read."""


def parser() -> OneLineParser:
    """The command line."""
    top = OneLineParser(prog="baselines", description="The systems of the comparison.")
    commands = top.add_subparsers(dest="command", required=True, metavar="list|check")
    commands.add_parser("list", help="systems, and whether they can run here")
    check = commands.add_parser("check", help="the equivalence certificate of a system")
    check.add_argument("name", metavar="NAME", help="a system; `list` shows all")
    check.add_argument("--workload", type=Path, action="append", metavar="FILE", help="TOML or JSON (default: every workload)")
    check.add_argument("--json", action="store_true", help="print findings as JSON")
    return top


def findings(name: str, workload: Workload) -> list[Equivalence]:
    """Compare one system with the reference on one workload."""
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


def check(options: Any, arguments: Sequence[str]) -> int:
    """Print what is equal; exit status 1 where something differs.

    Parameters
    ----------
    arguments
        those that `options` were parsed from.
    """
    if reason := system.get(options.name).available():
        raise ConfigError(f"system {options.name} cannot run here: {reason}")
    interpreter = system.get(options.name).interpreter()
    if interpreter != [sys.executable]:
        # It cannot be imported here: ask its own Python.
        return subprocess.run([*interpreter, "-m", "baselines", *arguments], check=False).returncode
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
        return check(options, arguments)
    for name in system.names():
        found = system.get(name)
        reason = found.available()
        print(f"{name}: {found.title}{f' (cannot run here: {reason})' if reason else ''}")
    return DONE


if __name__ == "__main__":
    sys.exit(run("baselines", main))
