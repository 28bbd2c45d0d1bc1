"""Time from launching the command to a mean return of 300 over 100 training episodes, with TianJi's released settings.

    python -m benchmarks.from_launch [--runs N] [--json FILE]

Runs `python -m tianji train` on the workloads `cartpole-dqn-released` and `cartpole-ppo-released`, with the seeds 0 to N - 1. A
process ends when the mean is reached, and its whole time counts, including imports, set-up and teardown. These are absolute
seconds of one machine, for orientation only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from baselines.system import Task
from baselines.tianji import TianJi
from programs.cli import DONE, FAILED, OneLineParser, run
from suites.records import machine
from suites.session import catalogue

WORKLOADS = ("cartpole-dqn-released", "cartpole-ppo-released")
LIMIT_S = 300.0


def settings(workload: str, cores: tuple[int, ...]) -> list[str]:
    """The workload as options of `tianji train`."""
    w = catalogue.load(workload)
    config = msgspec.to_builtins(TianJi().config(Task(TianJi.name, w, 0, cores)))
    kept = ("env", "algo", "actors", "envs_per_actor", "chunk_slots", "network", w.algo, "horizon_steps", "stop_steps")
    chosen = {name: config[name] for name in kept} | {"stop_return": w.thresholds.training}
    return [option for key, value in _flat(chosen) for option in ("--set", f"{key}={json.dumps(value)}")]


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value


def once(workload: str, seed: int) -> dict[str, Any]:
    """One run of the command."""
    options = settings(workload, tuple(sorted(os.sched_getaffinity(0))))
    with tempfile.TemporaryDirectory(prefix="tj") as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "tianji", "train", *options, "--seed", str(seed), "--quiet", "--out", str(out)]
        start = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
        seconds = time.monotonic() - start
        result = json.loads((out / "result.json").read_text())
    return {
        "workload": workload,
        "seed": seed,
        "command_s": seconds,
        "reached_s": result["reached_s"],
        "reached_steps": result["reached_steps"],
    }


def main(arguments: list[str]) -> int:
    parser = OneLineParser(prog="from_launch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each workload (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="a file for the figures of every run")
    options = parser.parse_args(arguments)
    told = []
    for workload in WORKLOADS:
        runs = [once(workload, seed) for seed in range(options.runs)]
        told += runs
        # A run that did not get there counts as longer than any that did.
        seconds = [r["command_s"] if r["reached_s"] is not None else float("inf") for r in runs]
        each = ", ".join(f"{s:.1f}" for s in sorted(seconds))
        print(f"{workload}: median {statistics.median(seconds):.1f} s of {len(runs)} ({each})", flush=True)
    if options.json is not None:
        manifest = machine.manifest()
        options.json.write_text(json.dumps({"machine": manifest, "runs": told}, indent=1) + "\n")
    return DONE if all(r["reached_s"] is not None for r in told) else FAILED


if __name__ == "__main__":
    sys.exit(run("from_launch", main))  # type: ignore[arg-type]
