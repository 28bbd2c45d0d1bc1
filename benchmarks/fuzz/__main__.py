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

LIVE = "live"


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


def main(arguments: Sequence[str]) -> int:
    parser = OneLineParser(prog="python -m benchmarks.fuzz", description="Try inputs that somebody made to do harm.")
    parser.add_argument("kind", choices=[*fuzz.KINDS, LIVE], help=f"what is read; {LIVE}: the sockets of runs that train")
    cases = f"inputs to try; of {LIVE}: frames for each socket (default: %(default)s)"
    parser.add_argument("--count", type=int, default=1000, metavar="N", help=cases)
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the inputs (default: %(default)s)")
    parser.add_argument("--failures", type=Path, metavar="DIR", help="where cases that fail are written")
    options = parser.parse_args(arguments)
    # As in a report: they are no answer.
    warnings.simplefilter("ignore")
    if options.kind == LIVE:
        return _live(options.count, options.seed)
    counts, told = fuzz.run(options.kind, options.count, options.seed, options.failures)
    for line in told:
        print(line)
    names = ("accepted", "refused", "crashed", "hung", "wrong")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{options.kind}: tried {counts.total()}: {', '.join(f'{name} {counts[name]}' for name in names)}; peak {peak} MB")
    return FAILED if told else DONE


if __name__ == "__main__":
    sys.exit(run_command("python -m benchmarks.fuzz", main))
