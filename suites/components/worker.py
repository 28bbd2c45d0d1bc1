"""Process that measures parts of this revision on request: `python -m suites.components.worker PARENT`.

It reads requests from standard input and answers on standard output, one JSON object per line, so that other revisions can use
it:

    <- {"protocol": 1, "tree": "...", "environment": {...}, "parts": [{"name": "sampling", "unit": "steps/s", ...}, ...]}
    -> {"prepare": "sampling", "seed": 3}      <- {"ready": "sampling"}
    -> {"measure": "sampling", "seconds": 0.1} <- {"value": 123456.7}
    -> {"close": "sampling"}                   <- {"closed": "sampling"}

Any failure is reported as {"error": "..."} and ends the process. It also ends with its parent, and when its input ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from typing import IO, Any

from programs.cli import DONE, FAILED
from programs.process import die_with_parent
from suites.components.parts import PARTS, Part, Prepared, described
from suites.records import machine

PROTOCOL = 1


def serve(questions: IO[str], answers: IO[str]) -> None:
    """Answer until there are no more questions."""

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    cores = os.sched_getaffinity(0)

    def keep_to_cores(part: Part) -> None:
        # A part with threads of its own (ZeroMQ's) does as much work on one core as on two, and scatters less. Threads begin
        # where the one that starts them is.
        os.sched_setaffinity(0, {max(cores)} if part.timed else cores)

    prepared: dict[str, Prepared] = {}
    whole = {"tree": str(machine.ROOT), "environment": machine.manifest(), "parts": list(described())}
    say({"protocol": PROTOCOL, **whole})
    try:
        for line in questions:
            match json.loads(line):
                case {"prepare": name, "seed": seed}:
                    keep_to_cores(PARTS[name])
                    part = prepared[name] = PARTS[name].prepare(seed)
                    if PARTS[name].timed:
                        # The first pieces of work are slower than those that follow.
                        part.measure(0.0)
                    say({"ready": name})
                case {"measure": name, "seconds": seconds}:
                    keep_to_cores(PARTS[name])
                    say({"value": prepared[name].measure(seconds)})
                case {"close": name}:
                    prepared.pop(name).close()
                    say({"closed": name})
                case other:
                    raise ValueError(f"no such question: {other}")
    except Exception as error:  # Whatever it is, who asked must hear of it.
        traceback.print_exc()
        say({"error": f"{type(error).__name__}: {error}"})
        raise
    finally:
        for part in prepared.values():
            part.close()


def main(parent: int) -> int:
    """Serve on standard input and output."""
    die_with_parent(parent)
    # Ctrl-C reaches all processes of a terminal; whoever started this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What others print must not come between answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        serve(sys.stdin, answers)
        return DONE
    except Exception:  # It has been told.
        return FAILED


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
