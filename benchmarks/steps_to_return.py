"""How many environment steps does a training return take under two disciplines, or with two settings? Runs are simulated.

    python -m benchmarks.steps_to_return --workload lunarlander-dqn --seeds 0-29 --out FILE.jsonl
    python -m benchmarks.steps_to_return --show benchmarks/recorded/steps_to_return.jsonl

Learning is real, and what lasts how long is simulated: a run repeats, and a busy machine does not change it. With `relaxed` an
actor samples while the learner trains. The file gets a line a run, and runs that it has already are not made again.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from scipy import stats

from baselines.system import SYSTEMS, Task
from baselines.workload import Workload
from programs.cli import DONE, ConfigError, OneLineParser, run
from suites.session import catalogue
from tianji.messages import Done, Episodes
from tianji.run.training import check
from tianji.simulation.world import Simulation

SECONDS = {
    "cartpole-dqn-quick": (0.006, 0.015),
    "cartpole-dqn-long": (0.006, 0.045),
    "lunarlander-dqn": (0.006, 0.015),
    "cartpole-ppo-zoo": (0.006, 0.009),
    "lunarlander-ppo": (0.1, 0.4),
}
"""Simulated time of a fragment of an actor, and of a round. They decide how old samples are where actors do not wait."""
FORMS = {"dqn": (("tianji", "reactor"), ("tianji", "relaxed")), "ppo": (("tianji", "strict"), ("tianji-relaxed", ""))}
"""System and discipline of the two forms that are compared, by algorithm."""
EPISODES = 100
"""Episodes whose mean return must reach the workload's threshold."""


class Run(Struct, frozen=True):
    """One run."""

    workload: str
    seed: int
    form: str
    steps: int | None
    """Environment steps at the return; None: it was not reached within the budget."""
    best: float
    """Highest mean return of so many episodes in a row."""


class Times:
    """What lasts how long."""

    def __init__(self, workload: str) -> None:
        self._fragment, self._round = SECONDS[workload]

    def fragment(self, actor: int) -> tuple[float, float]:
        """Seconds that a fragment takes to compute, and to wait for."""
        return self._fragment, 0.0

    def round(self, group: int, samples: int) -> float:
        """Seconds of a round."""
        return self._round

    def mean(self, models: int) -> float:
        """Seconds in which a Root averages."""
        return 0.0


def name_of(system: str, discipline: str, each: bool) -> str:
    return (discipline or system.removeprefix("tianji-")) + ", clipped apart" * each


def trained(workload: Workload, system: str, discipline: str, seed: int, *, each: bool) -> Run:
    """Train until the return or the budget."""
    options: dict[str, Any] = {"discipline": discipline} if discipline else {}
    options |= {"snapshot_every_steps": 10**9} | ({"ppo.clip_gradients": "each"} if each else {})
    config = SYSTEMS.get(system)().config(Task(system, workload, seed, (0, 1), options=options))
    last: deque[float] = deque(maxlen=EPISODES)
    steps: dict[str, int] = {}
    found: dict[str, Any] = {"steps": None, "best": float("-inf")}

    def hear(message: Any) -> str | None:
        if isinstance(message, Episodes):
            for episode in message.episodes:
                steps[message.role] = episode.actor_steps
                last.append(episode.episode_return)
                if len(last) == EPISODES:
                    mean = sum(last) / EPISODES
                    found["best"] = max(found["best"], mean)
                    if found["steps"] is None and mean >= workload.thresholds.training:
                        found["steps"] = sum(steps.values())
            steps[message.role] = message.actor_steps
        if isinstance(message, Done):
            return "steps"
        return "return" if found["steps"] is not None else None

    Simulation(config, check(config), Times(workload.id), learn=True, on_message=hear).run()
    return Run(workload.id, seed, name_of(system, discipline, each), found["steps"], round(found["best"], 2))


def measure(name: str, seeds: Sequence[int], out: Path, *, each: bool) -> None:
    """Make the runs that a file does not have yet, and append a line for each."""
    workload = catalogue.load(name)
    there = {(one.workload, one.seed, one.form) for one in (read(out) if out.exists() else [])}
    with out.open("ab") as file:
        for seed in seeds:
            for system, discipline in FORMS[workload.algo]:
                if (name, seed, name_of(system, discipline, each)) not in there:
                    file.write(msgspec.json.encode(trained(workload, system, discipline, seed, each=each)) + b"\n")
                    file.flush()


def read(path: Path) -> list[Run]:
    """Runs of a file."""
    try:
        return [msgspec.json.decode(line, type=Run) for line in path.read_bytes().splitlines()]
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def table(runs: Sequence[Run]) -> str:
    """Each form's misses, and for each pair of forms the ratio of restricted mean steps and McNemar's p of their misses.

    Intervals, 95 %, are percentiles of 10,000 draws of seeds. p is exact (a binomial test of the seeds that differ).
    """
    lines = []
    for name in dict.fromkeys(one.workload for one in runs):
        budget = catalogue.load(name).budget_steps
        by: dict[str, dict[int, int | None]] = {}
        for one in runs:
            if one.workload == name:
                by.setdefault(one.form, {})[one.seed] = one.steps
        for form, steps in by.items():
            lines.append(f"{name}, {form}: {sum(one is None for one in steps.values())} of {len(steps)} runs miss the return")
        for first, second in combinations(by, 2):
            lines.append(f"{name}, {second} over {first}: {compared(by[first], by[second], budget)}")
    return "\n".join(lines)


def compared(first: dict[int, int | None], second: dict[int, int | None], budget: int) -> str:
    """The second over the first, on the seeds of both."""
    seeds = sorted(first.keys() & second.keys())
    steps = np.array([[one[seed] or budget for seed in seeds] for one in (first, second)], float)
    drawn = np.random.default_rng(0).integers(0, len(seeds), (10_000, len(seeds)))
    below, above = np.percentile(steps[1][drawn].mean(axis=1) / steps[0][drawn].mean(axis=1), [2.5, 97.5])
    both = ((first, second), (second, first))
    only = [sum(one[seed] is None and other[seed] is not None for seed in seeds) for one, other in both]
    p = stats.binomtest(only[0], sum(only)).pvalue if sum(only) else 1.0
    ratio = steps[1].mean() / steps[0].mean()
    return f"steps {ratio:.3f} [{below:.3f} {above:.3f}], {len(seeds)} seeds; misses p = {p:.2f}"


def main(arguments: Sequence[str]) -> int:
    parser = OneLineParser(prog="python -m benchmarks.steps_to_return", description="Steps to a return under two disciplines.")
    parser.add_argument("--workload", choices=SECONDS, help="what is trained")
    parser.add_argument("--seeds", metavar="A-B", default="0-29", help="first and last seed (default: %(default)s)")
    parser.add_argument("--clip-each", action="store_true", help="clip the gradients of policy and value apart (PPO)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="make the runs that this file does not have yet")
    parser.add_argument("--show", type=Path, metavar="FILE", help="make no run: print what this file says")
    options = parser.parse_args(arguments)
    if (options.out is None) is (options.show is None) or (options.out is not None and options.workload is None):
        raise ConfigError("give --show, or --workload and --out")
    if options.out is not None:
        begin, _, end = options.seeds.partition("-")
        if not (begin.isdigit() and end.isdigit()):
            raise ConfigError(f"--seeds {options.seeds!r}: give a first and a last seed, for instance 0-29")
        measure(options.workload, range(int(begin), int(end) + 1), options.out, each=options.clip_each)
    print(table(read(options.show or options.out)))
    return DONE


if __name__ == "__main__":
    sys.exit(run("python -m benchmarks.steps_to_return", main))
