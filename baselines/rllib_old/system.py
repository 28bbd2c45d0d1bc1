"""RLlib's PPO as it was before the new API stack, with the workload's hyper-parameters; its translation and deviations."""

from __future__ import annotations

from typing import Any

from baselines.separate.system import SeparateProgram
from baselines.space import Space
from baselines.system import Task
from baselines.workload import Workload

THREADS = "torch_threads"
"""Its option: threads of torch."""


class OldRLlib(SeparateProgram):
    """One process: a rollout worker with a vector of environments beside the learner, without Ray's daemons.

    That is the arrangement of `rllib` on two cores.
    """

    name = "rllib-old"
    title = "RLlib 2.9 (old stack)"
    environment = "rllib-old"
    module = "baselines.rllib_old.learn"

    def takes(self, option: str) -> bool:
        return option == THREADS

    def space(self, task: Task) -> Space:
        numbers = (1, max(2, len(task.cores)))
        return super().space(task).extended({THREADS: numbers}, *({THREADS: n} for n in numbers))

    def deviations(self, task: Task) -> list[str]:
        w, told = task.workload, []
        rows, minibatch = w.round_steps, minibatch_of(w)
        if w.for_ppo.normalise_advantages:
            told.append(
                "Advantages are normalised over the round, once, by the population's standard deviation of at least 1e-4."
            )
        else:
            told.append("Advantages are normalised over the round: it has no setting that leaves it out.")
        if minibatch < rows:
            told.append("Minibatches are the same consecutive rows of the round in each epoch; only their order is drawn anew.")
        if rows % minibatch:
            told.append(f"The last {rows % minibatch} rows of a round, which fill no minibatch, are not trained on.")
        if len(task.cores) > 2:
            told.append("It samples in the learner's process, however many cores there are.")
        return [
            *told,
            "Our clock starts when its first training iteration is called, a few milliseconds before its first step.",
        ]

    def settings(self, task: Task) -> dict[str, Any]:
        w, ppo = task.workload, task.workload.for_ppo
        linear = ppo.learning_rate_schedule == "linear"
        return {
            "environment": {
                "env": w.env,
                "disable_env_checking": True,
                # The first is Gymnasium's own check, which no system has on.
                "env_config": {"disable_env_checker": True},
            },
            "rollouts": {
                "num_rollout_workers": 0,
                "num_envs_per_worker": w.environments,
                "rollout_fragment_length": ppo.rollout_steps,
                "batch_mode": "truncate_episodes",
            },
            "training": {
                "gamma": ppo.gamma,
                "lambda_": ppo.gae_lambda,
                "lr": ppo.learning_rate,
                "lr_schedule": [[0, ppo.learning_rate], [w.horizon_steps, 0.0]] if linear else None,
                "train_batch_size": w.round_steps,
                "sgd_minibatch_size": minibatch_of(w),
                "num_sgd_iter": ppo.epochs,
                "clip_param": ppo.clip,
                "kl_coeff": 0.0,
                "vf_loss_coeff": ppo.value_coefficient,
                # It cannot be switched off, only be made too large to matter.
                "vf_clip_param": float(2**100),
                "entropy_coeff": ppo.entropy_coefficient,
                "grad_clip": ppo.max_grad_norm,
                "model": {
                    "fcnet_hiddens": list(w.network.hidden),
                    "fcnet_activation": w.network.activation,
                    "vf_share_layers": False,
                },
            },
            "adam_epsilon": ppo.adam_epsilon,
            "torch_threads": int(task.options.get(THREADS, 1)),
        }


def minibatch_of(w: Workload) -> int:
    """Rows of one optimizer step."""
    return min(w.for_ppo.minibatch_size, w.round_steps)
