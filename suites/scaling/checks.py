"""Checks of nodes: what was measured on each, and the blocks that are thrown out because a node's speed changed.

Speed-ups compare cells of a block, so nodes must be as fast in all of them (`suites.scaling.node_speeds`). Functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, median

import msgspec
import pandas as pd

from suites.records.bundle import Bundle
from suites.records.events import NodeCheck
from suites.scaling.analysis import WHAT, Run, Setting, what
from suites.scaling.node_speeds import AFTER, BEFORE, TOLERANCE, means, readings
from suites.statistics.crossings import Block
from suites.statistics.summary import label_of


def steady(runs: Sequence[Run]) -> tuple[list[Run], list[tuple[Bundle, str]]]:
    """Runs whose block stays, and those of blocks that are thrown out, each with the reason.

    Blocks of the smoke profile stay: they are no evidence, and `caveats` says what is wrong with them.

    The speed of a cell is the mean over its nodes. A block is thrown out if one of its cells has another speed after the run
    than before it, or another speed than the median over the block's cells. `TOLERANCE` says by how much.

    Nodes that share the machine's cores are not judged, because no speed-up is formed of them. Nor are cells without readings.
    """
    blocks: dict[tuple[Setting, Block], list[Run]] = {}
    for run in runs:
        blocks.setdefault((run.setting, run.block), []).append(run)
    faults = {key: "" if _is_smoke(members) else "; ".join(_faults(members)) for key, members in blocks.items()}
    kept = [run for run in runs if not faults[run.setting, run.block]]
    return kept, [
        (run.bundle, f"block {run.block[1]} is thrown out: {fault}")
        for run in runs
        if (fault := faults[run.setting, run.block])
    ]


def caveats(runs: Sequence[Run]) -> list[str]:
    """A line for each block of the smoke profile whose nodes differed in speed, which its speed-ups contain."""
    blocks: dict[tuple[Setting, Block], list[Run]] = {}
    for run in filter(lambda run: _is_smoke([run]), runs):
        blocks.setdefault((run.setting, run.block), []).append(run)
    lines = []
    for (setting, block), members in blocks.items():
        if any(_faults(members)):
            speeds = [speed for run in members if not run.cores_shared for speed in means(run.bundle) or ()]
            share = max(speeds) / min(speeds) - 1
            lines.append(
                f"{setting.workload}, block {block[1]}: the same loop ran up to {share:.0%} faster on the nodes of one run "
                "than on those of another; speed-ups can be off by as much"
            )
    return lines


def _is_smoke(runs: Sequence[Run]) -> bool:
    return all(run.bundle.manifest.profile == "smoke" for run in runs)


def _faults(runs: Sequence[Run]) -> Iterator[str]:
    """What is wrong with cells of one block, in words."""
    known = {id(run): mean for run in runs if not run.cores_shared and (mean := means(run.bundle)) is not None}
    typical = median(fmean(pair) for pair in known.values()) if known else 0.0
    for run in (run for run in runs if id(run) in known):
        before, after = known[id(run)]
        cell = f"{label_of(run.bundle)} on {run.nodes} node{'s' * (run.nodes > 1)}"
        if _off(after, before):
            yield f"nodes of {cell} did {before:.0f} loops/s before the run and {after:.0f} after it"
        elif _off(fmean((before, after)), typical):
            yield f"nodes of {cell} did {fmean((before, after)):.0f} loops/s, and {typical:.0f} in the median of its cells"


def check_points(bundles: Iterable[Bundle]) -> pd.DataFrame:
    """One line a run and node: what was asked for, what was measured before the run, and its speed before and after."""
    rows = [
        what(bundle) | msgspec.structs.asdict(event) | speeds.get(event.node, {})
        for bundle in bundles
        for speeds in [readings(bundle)]
        for event in bundle.of(NodeCheck)
    ]
    columns = [*WHAT, *(name for name in NodeCheck.__struct_fields__ if name != "ns"), BEFORE, AFTER]
    return pd.DataFrame(rows, columns=columns)


def _off(one: float, other: float) -> bool:
    return abs(one / other - 1) > TOLERANCE
