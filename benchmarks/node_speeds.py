"""How steady emulated nodes are: `python -m benchmarks.node_speeds`, which needs root as the testbed does.

It takes readings of the bare loop by which the suite scaling checks its nodes, one after the other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, stdev

from programs.cli import ConfigError, OneLineParser, run
from suites.testbed.base import Shape
from suites.testbed.registry import open_testbed, unavailable

NODES, CORES = 8, 0.2


def readings(nodes: int, count: int) -> list[float]:
    """Loops a second, mean over the nodes, of so many readings one after the other."""
    shape = Shape(nodes=nodes, cores=CORES, company=NODES - nodes)
    with open_testbed("netns", shape) as testbed:
        return [fmean(testbed.speeds()) for _ in range(count)]


def line(nodes: int, found: Sequence[float]) -> str:
    """What readings come to, as a row of Markdown."""
    largest = max(abs(after / before - 1) for before, after in pairwise(found))
    scatter = stdev(found) / fmean(found)
    return f"| {nodes} | {fmean(found):,.0f} | {scatter:.1%} | {largest:.1%} |"


def main(arguments: Sequence[str]) -> int:
    """Print a row for each turn."""
    parser = OneLineParser(prog="python -m benchmarks.node_speeds", description="Measure how steady emulated nodes are.")
    parser.add_argument("--readings", type=int, default=8, metavar="N", help="of each row (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=2, metavar="N", help="rows (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=NODES, metavar="N", help=f"of {NODES}, whose mean counts (default: all)")
    options = parser.parse_args(arguments)
    if options.readings < 2 or options.turns < 1 or not 1 <= options.nodes <= NODES:
        raise ConfigError(f"give at least two readings, one turn, and 1 to {NODES} nodes")
    if (reason := unavailable("netns")) is not None:
        raise ConfigError(f"no nodes can be emulated: {reason}")
    print("| nodes | loops/s | scatter of readings | largest step from one to the next |")
    print("|---|---|---|---|")
    for _ in range(options.turns):
        print(line(options.nodes, readings(options.nodes, options.readings)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run("node_speeds", main))
