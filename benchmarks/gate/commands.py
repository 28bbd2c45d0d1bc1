"""How often is `tianji-bench gate` wrong about a program of a few milliseconds, and how often does it find 10 % more work?

    python -m benchmarks.gate.commands --out DIR [--kinds nothing,...] [--each N] [--seal FILE.parquet]
    python -m benchmarks.gate.commands --show DIR|FILE.parquet [--document FILE.md]

A trial is a whole comparison by the rule that the command uses, of a program with itself or with one that does 10 % more work.
In trials of the kinds `nothing` and `slower` the program prints its own time. In `nothing-timed` and `slower-timed` the gate
takes the time of the whole command.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.gate import trials
from gate.execution import CommandFailed
from gate.metrics import Source, WallClock
from gate.session import Measurement, Session
from programs.cli import DONE, FAILED, ConfigError, OneLineParser, run
from suites.records import machine
from suites.records.bundle import BundleError
from suites.statistics import comparison, gate
from suites.statistics.comparison import Comparison, Side

MORE = 0.10
"""Share by which a slower head does more work."""
LOOPS = 60_000
"""Of the program: a few milliseconds."""
PRINTED = """
import json, time
begun = time.perf_counter()
total = 0
for number in range({loops}):
    total += number * number
took = time.perf_counter() - begun
print(json.dumps({{"metric": "loop", "value": took, "unit": "s", "better": "lower"}}))
"""
TIMED = """
i=0
while [ $i -lt {loops} ]; do i=$((i+1)); done
"""
TIMEOUT_S = 60.0
FALSE_ALARMS, DETECTIONS = 40, 10
"""Trials of each kind: with the same program on both sides, and with a slower head."""
BEGIN, END = "<!-- trials of commands -->", "<!-- /trials of commands -->"
"""Lines of a document between which the result stands."""


class Kind(NamedTuple):
    """A kind of trial."""

    command: tuple[str, ...]
    """The program is its last argument's file."""
    text: str
    loops: int
    source: Source
    more: float

    @property
    def each(self) -> int:
        """Trials that are made of it."""
        return DETECTIONS if self.more else FALSE_ALARMS


def kinds() -> dict[str, Kind]:
    """Kinds of trials by name."""
    printed = ((sys.executable, "-I", "-S", "program"), PRINTED, LOOPS, Source())
    timed = (("/bin/sh", "program"), TIMED, LOOPS // 4, WallClock())
    return {
        "nothing": Kind(*printed, 0.0),
        "nothing-timed": Kind(*timed, 0.0),
        "slower": Kind(*printed, MORE),
        "slower-timed": Kind(*timed, MORE),
    }


def trial(name: str, folder: Path) -> Comparison:
    """One comparison, recorded in a folder that is made."""
    kind = kinds()[name]
    folders: dict[Side, Path] = {"base": folder / "base", "head": folder / "head"}
    for side, place in folders.items():
        place.mkdir(parents=True)
        loops = round(kind.loops * (1 + (kind.more if side == "head" else 0.0)))
        (place / "program").write_text(kind.text.format(loops=loops))
    environment = machine.manifest()
    session = Session(
        folders,
        {"base": environment, "head": environment},
        Measurement(kind.command, kind.source, TIMEOUT_S),
        gate.Rule(),
        folder,
        planted=None if name == trials.NOTHING else name,
        say=lambda line: None,
    )
    return session.run()


def told(found: dict[str, list[Comparison]]) -> str:
    """What trials come to."""
    return "\n".join(trials.lines(found))


def documented(text: str, found: dict[str, list[Comparison]], command: str) -> str:
    """A document with the result between its two lines.

    Raises
    ------
    ConfigError
        where it does not have these lines, once each.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise ConfigError(f"the document needs one line {BEGIN} and one line {END} after it")
    environment = next(iter(found.values()))[0].environments["head"]
    where = f"Measured on {machine.name(environment)}:"
    return f"{before}{begin}\n{where}\n\n```\n$ {command}\n{told(found)}\n```\n{end}{after}"


def main(arguments: Sequence[str]) -> int:
    parser = OneLineParser(prog="commands", description="Trials of the gate for any project.")
    parser.add_argument("--out", type=Path, metavar="DIR", help="go on with the trials in this folder")
    parser.add_argument("--show", type=Path, metavar="DIR|FILE", help="measure nothing: say what recorded trials come to")
    parser.add_argument("--kinds", default=",".join(kinds()), help="(%(default)s)")
    parser.add_argument(
        "--each", type=int, help=f"trials of each kind ({FALSE_ALARMS} of the same, {DETECTIONS} of slower ones)"
    )
    parser.add_argument("--seal", type=Path, metavar="FILE", help="new Parquet file for all trials of --out")
    parser.add_argument("--document", type=Path, metavar="FILE", help="Markdown file that the result of --show is written into")
    options = parser.parse_args(arguments)
    if (options.out is None) is (options.show is None):
        raise ConfigError("give one of --out and --show")
    if options.seal is not None and (options.out is None or options.seal.exists()):
        raise ConfigError(f"--seal {options.seal}: {'needs --out' if options.out is None else 'exists; name a new file'}")
    if options.document is not None and options.show is None:
        raise ConfigError("--document needs --show")
    for name in options.kinds.split(","):
        if name not in kinds():
            raise ConfigError(f"unknown kind {name!r}; known: {', '.join(kinds())}")
    if options.out is not None and not measure(options.out, options.kinds.split(","), options.each):
        return FAILED
    found = trials.recorded(options.show or options.out)
    print(told(found))
    if options.seal is not None:
        try:
            comparison.seal(options.out, options.seal)
        except BundleError as error:
            raise ConfigError(str(error)) from error
    if options.document is not None:
        command = f"python -m benchmarks.gate.commands --show {options.show}"
        new = documented(options.document.read_text(encoding="utf-8"), found, command)
        options.document.write_text(new, encoding="utf-8")
    return DONE


def measure(out: Path, names: Sequence[str], each: int | None) -> bool:
    """Make the trials that a folder does not have yet; False where one failed."""
    wanted = [(number, name) for name in names for number in range(kinds()[name].each if each is None else each)]
    # Kinds in turns: what disturbs the machine for a while meets all of them.
    for number, name in sorted(wanted):
        folder = out / f"{name}-{number:03d}"
        if folder.exists():
            continue
        try:
            trial(name, folder)
        except CommandFailed as error:
            print(f"commands: {error}", file=sys.stderr)
            return False
    return True


if __name__ == "__main__":
    sys.exit(run("commands", main))
