"""Process of one measurement: `python -m benchmarks.efficiency.cell CELL PARENT`, started by `__main__`.

It reports when it is ready and starts on command, so that bare loops side by side start together.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from benchmarks.efficiency import bare, system
from benchmarks.efficiency.cases import Cell, Window, configuration
from programs.cli import DONE, run
from programs.process import die_with_parent
from suites.components.work import Learning

READY = "ready"


def measure(cell: Cell, ready: Callable[[], None]) -> dict[str, Any]:
    """Measure what is done in a second.

    Parameters
    ----------
    ready
        returns when the work may begin.

    Returns
    -------
    rates under `sampling` and `learning`, and under `roles` what role processes tell of themselves.
    """
    config, describe = configuration(cell.part, cell.workload, cell.cores, cell.seed)
    sampled, learned = (Window(cell.warmup_s, cell.seconds) for _ in range(2))
    match cell.side, cell.part:
        case "bare", "sampling":
            acting = bare.Sampling(config, describe)
            ready()
            bare.repeat(acting.fragment, sampled)
            acting.close()
            return {"sampling": sampled.result()}
        case "bare", _:
            training = Learning(config, describe)
            ready()
            bare.repeat(training.round, learned)
            return {"learning": learned.result()}
        case _, "sampling":
            ready()
            came, reports = system.sampling(config, describe, sampled)
            told = {"sampling": sampled.result(), "consumed": asdict(came)}
        case _, "learning":
            ready()
            reports = system.learning(config, describe, learned)
            told = {"learning": learned.result()}
        case _:
            ready()
            reports = system.both(config, sampled, learned)
            told = {"sampling": sampled.result(), "learning": learned.result()}
    return {**told, "roles": {report.role: msgspec.structs.asdict(report) for report in reports}}


def main(arguments: Sequence[str]) -> int:
    """Measure the cell that is named, when standard input says so."""
    cell, parent = msgspec.json.decode(arguments[0], type=Cell), int(arguments[1])
    die_with_parent(parent)
    # Ctrl-C reaches all processes of a terminal; whoever started this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def say(answer: object) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()

    def ready() -> None:
        say(READY)
        if not sys.stdin.buffer.readline():
            raise KeyboardInterrupt

    say(measure(cell, ready))
    return DONE


if __name__ == "__main__":
    sys.exit(run("cell", main))
