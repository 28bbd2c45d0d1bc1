"""Actors and threads that a run takes by itself, beside those set by hand: `python -m benchmarks.chosen_cores`.

Every block runs each choice once, in random order. A rate is of unique environment steps trained on, between the first and the
last progress that a learner tells after a warm-up. A ratio is the geometric mean over blocks of the chosen rate over that of
the best choice by hand; the best is the one whose geometric mean is highest.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from itertools import product
from statistics import geometric_mean
from typing import Any

from msgspec.structs import replace

from programs.cli import ConfigError, OneLineParser, run
from tianji import AtariConfig, DQNConfig, PPOConfig, TrainConfig
from tianji.launch.events import Heard
from tianji.messages import Progress
from tianji.run.training import train

WARM_UP_S = 4.0
ENDLESS = 1 << 40
PONG: dict[str, Any] = {"env": "ALE/Pong-v5", "stop_steps": ENDLESS, "horizon_steps": 10_000_000}
ZOO = PPOConfig(epochs=4, clip=0.1, learning_rate=2.5e-4, entropy_coefficient=0.01)
REPLAY = DQNConfig(replay_capacity=20_000, learning_starts=1_000, batch_size=32, train_every_steps=4, updates=1)
CASES: dict[str, dict[str, Any]] = {
    **{
        f"PPO {side} x {side}, {rule}": PONG | {"ppo": ZOO, "discipline": rule, "atari": AtariConfig(screen=side)}
        for side in (84, 42)
        for rule in ("strict", "relaxed")
    },
    **{f"DQN {side} x {side}": PONG | {"algo": "dqn", "dqn": REPLAY, "atari": AtariConfig(screen=side)} for side in (84, 42)},
    **{
        f"PPO CartPole, {rule}": {"env": "CartPole-v1", "discipline": rule, "stop_steps": ENDLESS, "horizon_steps": 10**7}
        for rule in ("strict", "relaxed")
    },
    "DQN CartPole": {"env": "CartPole-v1", "algo": "dqn", "stop_steps": ENDLESS},
}


def by_hand(config: TrainConfig) -> dict[str, TrainConfig]:
    """One or two actors of the same environments in all, and one or two threads."""
    total = config.actors * config.envs_per_actor
    return {
        f"{actors} x {total // actors}, {threads}": replace(
            config, actors=actors, envs_per_actor=total // actors, learner_threads=threads
        )
        for actors, threads in product((1, 2), (1, 2))
        if total % actors == 0
    }


def rate(config: TrainConfig, seconds: float) -> float:
    """Environment steps trained on, per second, of a run of so long after the warm-up."""
    told: list[tuple[int, float]] = []

    def hear(message: Heard) -> None:
        if isinstance(message, Progress) and message.role.startswith("learner"):
            told.append((message.at_ns, message.counters["steps"]))

    train(replace(config, stop_seconds=WARM_UP_S + seconds, checkpoint_seconds=None, snapshot_every_steps=ENDLESS), hear)
    (begun, before), (ended, after) = next(one for one in told if one[0] - told[0][0] >= WARM_UP_S * 1e9), told[-1]
    return (after - before) / (ended - begun) * 1e9


def rows(rates: dict[str, dict[str, list[float]]]) -> list[str]:
    """A Markdown table: each case, what was chosen, the best by hand, and their ratio."""
    lines = ["| workload | chosen (steps/s) | best by hand: actors x environments, threads (steps/s) | chosen / best |"]
    lines.append("|---|---|---|---|")
    for case, found in rates.items():
        means = {name: geometric_mean(values) for name, values in found.items()}
        best = max((name for name in means if name != "chosen"), key=means.__getitem__)
        ratio = means["chosen"] / means[best]
        lines.append(f"| {case} | {means['chosen']:,.0f} | {best} ({means[best]:,.0f}) | {ratio:.2f} |")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Run all cases, and print the table after each block."""
    parser = OneLineParser(prog="python -m benchmarks.chosen_cores", description=str(__doc__).partition(":")[0])
    parser.add_argument("--blocks", type=int, default=3, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="of each run (default: %(default)s)")
    parser.add_argument("--case", action="append", metavar="TEXT", help="only cases with this in their name")
    options = parser.parse_args(arguments)
    cases = {name: one for name, one in CASES.items() if not options.case or any(text in name for text in options.case)}
    if options.blocks < 1 or options.seconds <= 0 or not cases:
        raise ConfigError(f"give at least one block, a time, and a part of these names: {', '.join(CASES)}")
    rates: dict[str, dict[str, list[float]]] = {}
    order = random.Random(0)
    for block in range(options.blocks):
        for case, settings in cases.items():
            config = TrainConfig(seed=block, **settings)
            arms = list({"chosen": config, **by_hand(config)}.items())
            order.shuffle(arms)
            for name, one in arms:
                found = rates.setdefault(case, {}).setdefault(name, [])
                found.append(rate(one, options.seconds))
                print(f"{case}: {name}: {found[-1]:,.0f}", file=sys.stderr, flush=True)
    print("\n".join(rows(rates)))
    return 0


if __name__ == "__main__":
    sys.exit(run("chosen_cores", main))
