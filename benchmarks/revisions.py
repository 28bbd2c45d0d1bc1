"""Is training faster or slower than at another revision? Interleaved pairs of runs, same seed, ratio within a pair.

    python benchmarks/revisions.py BASE [--pairs N]

BASE is checked out beside this tree and trained by the same interpreter; prints how many times faster this tree is, as a
geometric mean with a paired 95 % interval (Student's t on log ratios).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

HERE = Path(__file__).resolve().parent.parent
RUNS = {
    "PPO, 51,200 steps": ["--algo", "ppo", "--stop-steps", "51200"],
    "DQN, 8,000 steps": ["--algo", "dqn", "--stop-steps", "8000"],
}


def seconds(tree: Path, arguments: list[str], seed: int) -> float:
    """Training time of one run, from the first environment step on."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "tianji", "train", "--env", "CartPole-v1", *arguments, "--seed", str(seed)]
        # In the tree's own folder, which Python looks into first.
        subprocess.run([*command, "--out", f"{out}/run"], cwd=tree, check=True, capture_output=True, timeout=300)
        return float(json.loads(Path(out, "run", "result.json").read_text())["seconds"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="a revision of git")
    parser.add_argument("--pairs", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base")
        subprocess.run(["git", "worktree", "add", "-q", "--detach", base, options.base], cwd=HERE, check=True)
        try:
            for name, arguments in RUNS.items():
                logs = []
                for pair in range(options.pairs):
                    trees = [base, HERE] if pair % 2 else [HERE, base]
                    took = {tree: seconds(tree, arguments, pair) for tree in trees}
                    logs.append(np.log(took[base] / took[HERE]))
                mean, width = np.mean(logs), stats.sem(logs) * stats.t.ppf(0.975, len(logs) - 1)
                low, middle, high = np.exp([mean - width, mean, mean + width])
                print(f"{name}: {middle:.3f} times faster [{low:.3f} {high:.3f}], {options.pairs} pairs", flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", base], cwd=HERE, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
