"""Plays a snapshot: `python play.py FILE ENV FIRST_SEED EPISODES`. Its last line is the returns as JSON."""

import json
import sys

import gymnasium
import numpy as np


def main(file, env_id, first_seed, episodes):
    """Play one greedy episode from each seed and print their returns."""
    with np.load(file) as stored:
        weights = dict(stored)
    layers = sorted({name.rpartition(".")[0] for name in weights if name.startswith("mlp_extractor.policy_net.")})

    def action(x):
        for layer in layers:
            x = np.tanh(weights[f"{layer}.weight"] @ x + weights[f"{layer}.bias"])
        return int(np.argmax(weights["action_net.weight"] @ x + weights["action_net.bias"]))

    env, returns = gymnasium.make(env_id), []
    for seed in range(first_seed, first_seed + episodes):
        observation, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(action(observation))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    print(json.dumps(returns))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
