"""Does training learn what it should? Returns of several seeds beside published ones, or beside the optimum.

    python -m benchmarks.learned [NAME ...] [--seeds 5] [--episodes 200]

Prints a row of a Markdown table for each environment. PPO is strict here, so a loaded machine changes its time and not its
returns.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from programs.cli import ConfigError
from tianji import TrainConfig, train
from tianji.policy import Policy
from tianji.run.play import Player
from tianji.settings import convert

CARDS = ((10, 4 / 13), *((card, 1 / 13) for card in range(1, 10)))
"""Values of cards and their probabilities, from a deck without end."""


@dataclass(frozen=True)
class Case:
    """An environment that is learnt, and the return that it should reach."""

    settings: dict[str, Any]
    source: str
    """Where the reference is from."""
    reference: Callable[[], float]
    margin: float
    """How far below the reference the mean over seeds may be. Fixed before anything was run."""
    exact: Callable[[Policy], float] | None = None
    """The expected return of a policy, without playing it."""


def taxi_optimum() -> float:
    """Expected return of the best policy of Taxi within 200 steps, by backward induction over its own transitions."""
    env = gym.make("Taxi-v3").unwrapped
    states, actions = env.observation_space.n, env.action_space.n
    value = np.zeros(states)
    for _ in range(200):
        choices = np.zeros((states, actions))
        for state in range(states):
            for action in range(actions):
                choices[state, action] = sum(
                    probability * (reward + (0.0 if over else value[following]))
                    for probability, following, reward, over in env.P[state][action]
                )
        value = choices.max(axis=1)
    return float(env.initial_state_distrib @ value)


def blackjack(stick: Callable[[int, int, bool], bool] | None) -> float:
    """Expected return of a policy of Blackjack, or of the best one (None). Hands count aces as 1, and as 11 if that fits."""

    @functools.cache
    def dealers(raw: int, ace: bool) -> tuple[tuple[int, float], ...]:
        total = raw + 10 if ace and raw + 10 <= 21 else raw
        if total >= 17:
            return ((total if total <= 21 else 0, 1.0),)
        found: dict[int, float] = {}
        for card, probability in CARDS:
            for final, share in dealers(raw + card, ace or card == 1):
                found[final] = found.get(final, 0.0) + probability * share
        return tuple(found.items())

    @functools.cache
    def shown(dealer: int) -> tuple[tuple[int, float], ...]:
        found: dict[int, float] = {}
        for card, probability in CARDS:
            for final, share in dealers(dealer + card, 1 in (dealer, card)):
                found[final] = found.get(final, 0.0) + probability * share
        return tuple(found.items())

    @functools.cache
    def value(raw: int, ace: bool, dealer: int) -> float:
        if raw > 21:
            return -1.0
        usable = ace and raw + 10 <= 21
        total = raw + 10 if usable else raw
        stay = sum(share * float(np.sign(total - final)) for final, share in shown(dealer))
        if stick is not None and stick(total, dealer, usable):
            return stay
        go_on = sum(probability * value(raw + card, ace or card == 1, dealer) for card, probability in CARDS)
        return go_on if stick is not None else max(stay, go_on)

    return sum(
        one * two * up * value(first + second, 1 in (first, second), dealer)
        for first, one in CARDS
        for second, two in CARDS
        for dealer, up in CARDS
    )


def blackjack_value(policy: Policy) -> float:
    """Expected return of a greedy policy of Blackjack."""

    def stick(total: int, dealer: int, usable: bool) -> bool:
        features: NDArray[np.float32] = np.zeros((1, 45), np.float32)
        features[0, [total, 32 + dealer, 43 + usable]] = 1
        return int(policy.greedy(features)[0]) == 0

    return blackjack(stick)


ZOO = "RL Baselines3 Zoo"
MLP = {"kind": "mlp-separate"}
DQN = {"learning_starts": 1000, "train_every_steps": 32, "updates": 16, "gamma": 0.99, "learning_rate": 1e-3, "batch_size": 128}
CASES: dict[str, Case] = {
    "pendulum": Case(
        {
            "env": "Pendulum-v1",
            "envs_per_actor": 2,
            "stop_steps": 102_400,
            "network": MLP,
            "actions": {"exploration": "state", "noise_steps": 4},
            "ppo": {"rollout_steps": 1024, "minibatch_size": 64, "learning_rate": 1e-3, "gamma": 0.9},
        },
        f"{ZOO}, -172 +- 104",
        lambda: -172.2,
        78.0,
    ),
    "mountain-car": Case(
        {
            "env": "MountainCarContinuous-v0",
            "actors": 1,
            "envs_per_actor": 1,
            "stop_steps": 20_000,
            "network": MLP,
            "actions": {"exploration": "state", "log_scale": -3.29},
            "normalise": {"observations": True, "rewards": True},
            "ppo": {
                "rollout_steps": 8,
                "learning_rate": 7.77e-5,
                "clip": 0.1,
                "gamma": 0.9999,
                "gae_lambda": 0.9,
                "value_coefficient": 0.19,
                "entropy_coefficient": 0.00429,
                "max_grad_norm": 5.0,
            },
        },
        f"{ZOO}, 88.3 +- 2.6",
        lambda: 88.3,
        5.0,
    ),
    "walker": Case(
        {
            "env": "BipedalWalker-v3",
            "envs_per_actor": 16,
            "stop_steps": 5_046_272,
            "network": MLP,
            "normalise": {"observations": True, "rewards": True},
            "ppo": {"rollout_steps": 2048, "minibatch_size": 64, "clip": 0.18, "gamma": 0.999},
        },
        f"{ZOO}, 213 +- 129",
        lambda: 213.3,
        60.0,
    ),
    "blackjack": Case(
        {
            "env": "Blackjack-v1",
            "algo": "dqn",
            "stop_steps": 200_000,
            "network": {"hidden": [64, 64]},
            "dqn": DQN | {"learning_rate": 2e-4, "epsilon_steps": 50_000, "epsilon_end": 0.2},
        },
        "the optimum",
        lambda: blackjack(None),
        0.02,
        blackjack_value,
    ),
    "taxi": Case(
        {
            "env": "Taxi-v3",
            "algo": "dqn",
            "stop_steps": 200_000,
            "network": {"hidden": [128]},
            "dqn": DQN | {"epsilon_steps": 50_000, "epsilon_end": 0.05},
        },
        "the optimum",
        taxi_optimum,
        0.5,
    ),
}
"""Environments by name. The Zoo's numbers are means and standard deviations over episodes of one trained agent."""


def learnt(case: Case, seed: int, episodes: int) -> tuple[int, float]:
    """Steps of a run, and the return of its last policy."""
    usual = {"actors": 2, "seed": seed} if case.settings.get("algo") != "dqn" else {"seed": seed}
    config = convert({**usual, **case.settings}, TrainConfig, case.settings["env"])
    result = train(config)
    if case.exact is not None:
        return result.steps, case.exact(result.policy)
    player = Player(config.env, episodes, config.atari, config.simulator, config.environment)
    try:
        return result.steps, float(player.play(result.policy, range(10_000, 10_000 + episodes)).mean())
    finally:
        player.close()


def main() -> int:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.learned", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=200)
    options = parser.parse_args()
    if unknown := set(options.names) - set(CASES):
        raise ConfigError(f"unknown: {min(unknown)}; known: {', '.join(CASES)}")
    print(
        "| environment | algorithm | steps | returns of each seed | mean | reference | margin | within |\n" + "|---" * 8 + "|"
    )
    for name in options.names or CASES:
        case = CASES[name]
        runs = [learnt(case, seed, options.episodes) for seed in range(options.seeds)]
        returns, reference = [value for _, value in runs], case.reference()
        mean = float(np.mean(returns))
        cells = (
            case.settings["env"],
            case.settings.get("algo", "ppo"),
            f"{runs[0][0]:,}",
            " ".join(f"{value:.3g}" for value in returns),
            f"{mean:.3g}",
            f"{reference:.3g} ({case.source})",
            f"{case.margin:g}",
            "yes" if mean >= reference - case.margin else "no",
        )
        print(f"| {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
