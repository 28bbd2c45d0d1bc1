"""Compares two runs of the transmission suite, to see whether their ratios agree.

    python benchmarks/agreement.py RUN RUN

Published ratios are formed within blocks: TianJi over every peer, and every system over the ceiling. Each is formed in both
runs. Its change between the runs is compared with the *noise floor*: the difference between two runs of TianJi in the same
blocks. Both are means over the blocks of a run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from reports import dataset
from reports.pairs import REFERENCE
from suites.statistics.summary import AGAIN

KEYS = ("workload", "explorers", "size_bytes", "system", "baseline")


def ratios(rows):
    return {tuple(r[k] for k in KEYS): r for r in rows if r["metric"] == "goodput_ratio"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs=2, type=Path, metavar="DIR", help="a folder of bundles; two of them are compared")
    first, second = (ratios(dataset.load([run]).rows) for run in parser.parse_args().runs)
    lines = []
    for workload in sorted({key[0] for key in first}):
        mine = [{key: r for key, r in rows.items() if key[0] == workload} for rows in (first, second)]
        again = [abs(np.log(r["value"])) for rows in mine for key, r in rows.items() if key[-1] == REFERENCE + AGAIN]
        common = [key for key in mine[0].keys() & mine[1].keys() if key[-1] != REFERENCE + AGAIN]
        change = [abs(np.log(second[key]["value"] / first[key]["value"])) for key in common]
        bounded = [key for key in common if first[key]["ci_low"] is not None]
        held = sum(first[key]["ci_low"] <= second[key]["value"] <= first[key]["ci_high"] for key in bounded)
        floor, moved = (np.exp(np.percentile(values, [50, 95])) for values in (again, change))
        lines.append(
            {
                "workload": workload,
                "blocks": " and ".join(str(max(r["n"] for r in rows.values())) for rows in mine),
                "ratios": len(common),
                "noise floor: median, 95 %": f"{floor[0]:.2f}x, {floor[1]:.2f}x",
                "change: median, 95 %": f"{moved[0]:.2f}x, {moved[1]:.2f}x",
                "in run 1's interval": f"{held} of {len(bounded)}",
            }
        )
    print(pd.DataFrame(lines).to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
