"""Trains on a Ray cluster of two nodes, and prints what came of it as JSON; some of its processes are killed.

A process for itself: Ray leaves connections open in whatever process it was used in.
"""

import json
import sys

import ray
from descendants import kill, left

from tianji.config import PPOConfig, TrainConfig
from tianji.messages import PortsOpen, Saved, Snapshot
from tianji.run.training import train

SMALL = {
    "env": "CartPole-v1",
    "ppo": PPOConfig(rollout_steps=16, minibatch_size=32, epochs=2, learning_rate=1e-3, learning_rate_schedule="linear"),
    "actors": 2,
    "envs_per_actor": 4,
    "stop_steps": 2048,
    "snapshot_every_steps": 512,
}


def main(cluster, folder):
    root = cluster["pid"]
    bound, victims, killed = {}, ["actor g0.a1", "buffer g0"], []

    def watch(message):
        if isinstance(message, PortsOpen):
            bound.update(message.addresses)
        if isinstance(message, Snapshot) and message.steps >= 8_000 and victims and kill(f"tj-{victims[0]}", root):
            victims.pop(0)

    def kill_the_learner(message):
        if isinstance(message, Saved) and message.steps < 30_000 and not killed and kill("tj-learner g0", root):
            killed.append(message.steps)

    try:
        there = {**SMALL, "launcher": "ray", "ray_address": cluster["address"], "ray_placement": "SPREAD", "placement": "apart"}
        alike = train(TrainConfig(**there), watch)
        survived = train(TrainConfig(**{**there, "stop_steps": 24_064}), watch)
        resumed = train(
            TrainConfig(**{**there, "stop_steps": 50_048, "checkpoint_seconds": 0.1}), kill_the_learner, out=f"{folder}/run"
        )
        remain = left(["tj-learner g0", "tj-buffer g0", "tj-actor g0.a0", "tj-actor g0.a1"], root)
    finally:
        ray.shutdown()
    result = {
        "addresses": bound,
        "weights": alike.weights.tolist(),
        "survived": [survived.outcome, survived.steps, [r.role for r in survived.restarts]],
        "killed": killed,
        "resumed": [resumed.outcome, resumed.steps, [r.role for r in resumed.restarts]],
        "left": remain,
    }
    print("\n" + json.dumps(result))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
