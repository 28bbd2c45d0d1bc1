"""`python -m benchmarks.fuzz KIND --count N`: exit status 1 when anything crashed, hung or was accepted wrongly."""

from __future__ import annotations

import resource
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from benchmarks import fuzz
from programs.cli import DONE, FAILED, OneLineParser
from programs.cli import run as run_command

LIVE, SIEGE = "live", "siege"


def _live(count: int, seed: int) -> int:
    """Attack a plain and an encrypted run."""
    # torch and all of training: the other kinds do without.
    from benchmarks.fuzz.live import attack

    status = DONE
    for encrypt in (False, True):
        came = attack(count, seed, encrypt=encrypt)
        held = came.equal and not came.lost
        status = status if held else FAILED
        same = "equal" if came.equal else "differ from"
        print(
            f"{LIVE}, {'encrypted' if encrypt else 'plain'}: {came.frames} frames to {came.sockets} sockets; "
            f"{came.steps} steps; chunks lost or doubled {came.lost}; weights {same} those of an undisturbed run"
        )
    return status


def _siege(seconds: float, seed: int) -> int:
    """Attack every port of an encrypted run."""
    from benchmarks.fuzz.siege import besieged

    came = besieged(seconds, seed)
    for way, count in sorted(came.tried.items()):
        print(f"{SIEGE}, {way}: tried {count}")
    for line in came.answered:
        print(f"{SIEGE}, answered: {line}")
    same = "equal" if came.equal else "differ from"
    print(
        f"{SIEGE}: tried {sum(came.tried.values())} on {came.ports} ports in {seconds:g} s, accepted {len(came.answered)}, "
        f"counted as refused {came.refused}; lost {came.lost}; weights {same} those of an undisturbed run; "
        f"speed {came.speed:.2f} of its, memory at the end {came.growth:.3f} times that at the start"
    )
    return FAILED if came.answered or came.lost or not came.equal else DONE


def main(arguments: Sequence[str]) -> int:
    parser = OneLineParser(prog="python -m benchmarks.fuzz", description="Try inputs that somebody made to do harm.")
    parser.add_argument("kind", choices=[*fuzz.KINDS, LIVE, SIEGE], help=f"what is read; {LIVE}, {SIEGE}: by runs that train")
    cases = f"inputs to try; of {LIVE}: frames for each socket (default: %(default)s)"
    parser.add_argument("--count", type=int, default=1000, metavar="N", help=cases)
    parser.add_argument("--seconds", type=float, default=300.0, metavar="S", help=f"length of {SIEGE} (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the inputs (default: %(default)s)")
    parser.add_argument("--failures", type=Path, metavar="DIR", help="where cases that fail are written")
    options = parser.parse_args(arguments)
    # As in a report: they are no answer.
    warnings.simplefilter("ignore")
    if options.kind == LIVE:
        return _live(options.count, options.seed)
    if options.kind == SIEGE:
        return _siege(options.seconds, options.seed)
    counts, told = fuzz.run(options.kind, options.count, options.seed, options.failures)
    for line in told:
        print(line)
    names = ("accepted", "refused", "crashed", "hung", "wrong")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{options.kind}: tried {counts.total()}: {', '.join(f'{name} {counts[name]}' for name in names)}; peak {peak} MB")
    return FAILED if told else DONE


if __name__ == "__main__":
    sys.exit(run_command("python -m benchmarks.fuzz", main))
