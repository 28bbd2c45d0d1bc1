"""Trains the task of this folder with RLlib of Ray 2.9.3, in an interpreter that has it and nothing of this project."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.callbacks import DefaultCallbacks
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.ppo.ppo_torch_policy import PPOTorchPolicy
from ray.tune.logger import NoopLogger

from baselines.separate.run import Run, Tensors


class EpisodeProbe(DefaultCallbacks):
    """Keeps finished episodes, stamped when they end. RLlib's own mean is over the episodes of several iterations."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = self.sampled_ns = 0
        self.records: list[tuple[int, float, int, int]] = []

    def on_episode_end(self, *, episode: Any, **_: Any) -> None:
        """Keep the episode."""
        self.records.append((time.monotonic_ns(), float(episode.total_reward), int(episode.length), self.steps))

    def on_sample_end(self, *, samples: Any, **_: Any) -> None:
        """Count the steps of a round, and note when its last step was done."""
        self.sampled_ns = time.monotonic_ns()
        self.steps += int(samples.env_steps())


def with_adam_epsilon(epsilon: float) -> Any:
    """The stock algorithm but for one argument of its optimizer, which its configuration cannot express."""

    class Policy(PPOTorchPolicy):
        def optimizer(self) -> Any:
            return torch.optim.Adam(self.model.parameters(), lr=self.config["lr"], eps=epsilon)

    class Algorithm(PPO):
        @classmethod
        def get_default_policy_class(cls, config: Any) -> Any:
            return Policy

    return Algorithm


def names(depth: int) -> dict[str, str]:
    """RLlib's name of each of our layers, for so many hidden layers."""
    found = {f"policy.{depth}": "_logits._model.0", f"value.{depth}": "_value_branch._model.0"}
    for tower, place in (("policy", "_hidden_layers"), ("value", "_value_branch_separate")):
        found |= {f"{tower}.{layer}": f"{place}.{layer}._model.0" for layer in range(depth)}
    return found


def to_rllib(tensors: Tensors, depth: int) -> dict[str, Any]:
    """Weights for its policy. torch's layers hold [outputs, inputs]."""
    found = {}
    for ours, theirs in names(depth).items():
        found[f"{theirs}.weight"] = np.ascontiguousarray(tensors[f"{ours}.kernel"].T)
        found[f"{theirs}.bias"] = tensors[f"{ours}.bias"]
    return found


def from_rllib(weights: dict[str, Any], depth: int) -> Tensors:
    """Parameters of its policy."""
    found = {}
    for ours, theirs in names(depth).items():
        found[f"{ours}.kernel"] = weights[f"{theirs}.weight"].T
        found[f"{ours}.bias"] = weights[f"{theirs}.bias"]
    return found


def build(settings: dict[str, Any], seed: int) -> Any:
    """The algorithm, set up."""
    config = (
        PPOConfig(algo_class=with_adam_epsilon(settings["adam_epsilon"]))
        .environment(**settings["environment"])
        .framework("torch")
        .rollouts(**settings["rollouts"])
        .training(**settings["training"])
        .callbacks(EpisodeProbe)
        # An iteration is one round.
        .reporting(min_sample_timesteps_per_iteration=0, min_time_s_per_iteration=0)
        .debugging(seed=seed, log_level="ERROR")
    )
    # Its usual loggers would write into the home folder.
    return config.build(logger_creator=lambda given: NoopLogger(given, os.getcwd()))


def main() -> None:
    """Train, and record it."""
    with Run() as run:
        settings, depth = run.settings, len(run.workload["network"]["hidden"])
        torch.set_num_threads(settings["torch_threads"])
        algorithm = build(settings, run.task["seed"])
        policy = algorithm.get_policy()
        policy.set_weights(to_rllib(run.initial, depth))
        probe = algorithm.workers.local_worker().callbacks
        budget, rows = run.workload["budget_steps"], settings["training"]["train_batch_size"]
        steps = version = sampling_ns = 0
        run.snapshot(0, 0, from_rllib(policy.get_weights(), depth))
        began = time.monotonic_ns()
        run.recording.first_step(began)
        while not run.stopping and steps + rows <= budget:
            round_ns = time.monotonic_ns()
            result = algorithm.train()
            now = time.monotonic_ns()
            steps = int(result["num_env_steps_sampled"])
            sampling_ns += probe.sampled_ns - round_ns
            version = int(next(iter(policy._optimizers[0].state.values()))["step"])
            for record in probe.records:
                run.recording.episode(*record)
            probe.records.clear()
            run.progress(steps, steps * settings["training"]["num_sgd_iter"])
            if run.due(steps):
                run.snapshot(steps, version, from_rllib(policy.get_weights(), depth), now)
        update_s = (time.monotonic_ns() - began - sampling_ns) / 1e9
        run.snapshot(steps, version, from_rllib(policy.get_weights(), depth))
        run.close(steps, version, {"sample": sampling_ns / 1e9, "update": update_s}, {})
        algorithm.stop()


if __name__ == "__main__":
    main()
