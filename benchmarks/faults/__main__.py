"""What does a run do when its environment fails?

    python -m benchmarks.faults --out FILE.jsonl [--tree DIR] [--faults NAME,...] [--jobs N]
    python -m benchmarks.faults --show FILE.jsonl [--document FILE.md]

Each fault happens in the first actor and in another one, under strict PPO, relaxed PPO and DQN. The file gets a line a run, and
runs that it has already are not made again.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec

from benchmarks.faults import table
from benchmarks.faults.faulty import FAULTS
from benchmarks.faults.trial import ALGORITHMS, Trial, try_once
from programs.cli import DONE, ConfigError, OneLineParser, run
from programs.process import die_with_parent

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str]) -> int:
    parser = OneLineParser(prog="python -m benchmarks.faults", description="Runs whose environment fails, one for each fault.")
    parser.add_argument("--out", type=Path, metavar="FILE", help="make the runs that this file does not have yet")
    parser.add_argument("--show", type=Path, metavar="FILE", help="make no run: print the table of this file")
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="DIR", help="checkout that is run (default: this one)")
    parser.add_argument("--faults", help="only these, by name with commas (default: all)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="runs at a time (default: %(default)s)")
    parser.add_argument("--document", type=Path, metavar="FILE", help="Markdown file into which --show writes the table")
    options = parser.parse_args(arguments)
    if (options.out is None) is (options.show is None):
        raise ConfigError("give one of --out and --show")
    if options.document is not None and options.show is None:
        raise ConfigError("--document needs --show")
    wanted = FAULTS if options.faults is None else options.faults.split(",")
    if unknown := set(wanted) - set(FAULTS):
        raise ConfigError(f"unknown fault {unknown.pop()!r}; known: {', '.join(FAULTS)}")
    if options.out is not None:
        measure(options.tree.absolute(), options.out, wanted, options.jobs)
    found = read(options.show or options.out)
    print(table.table(found))
    if options.document is not None:
        text = options.document.read_text(encoding="utf-8")
        options.document.write_text(table.documented(text, found), encoding="utf-8")
    return DONE


def measure(tree: Path, out: Path, faults: Sequence[str], jobs: int) -> None:
    """Make the runs that a file does not have yet, and append a line for each."""
    there = {(trial.fault, trial.actor, trial.algorithm) for trial in (read(out) if out.exists() else [])}
    todo = [one for one in itertools.product(faults, (0, 1), ALGORITHMS) if one not in there]
    # Fresh processes: a trial adopts the orphans of its run.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, fresh, die_with_parent, (os.getpid(),)) as pool, out.open("ab") as file:
        asked = [pool.submit(try_once, tree, *one) for one in todo]
        for number, done in enumerate(as_completed(asked), 1):
            trial = done.result()
            file.write(msgspec.json.encode(trial) + b"\n")
            file.flush()
            print(f"{number} of {len(todo)}: {table.told(trial)}", file=sys.stderr, flush=True)


def read(path: Path) -> list[Trial]:
    """Trials of a file, in the order of the table."""
    try:
        found = [msgspec.json.decode(line, type=Trial) for line in path.read_bytes().splitlines()]
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    order = {one: n for n, one in enumerate(itertools.product(FAULTS, ALGORITHMS, (0, 1)))}
    return sorted(found, key=lambda trial: order[trial.fault, trial.algorithm, trial.actor])


if __name__ == "__main__":
    sys.exit(run("faults", main))
