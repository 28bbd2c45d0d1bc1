"""Sample Factory's APPO with the hyper-parameters of a PPO workload; its translation and deviations."""

from __future__ import annotations

import math
from typing import Any

from baselines import normalisation
from baselines.separate.system import SeparateProgram
from baselines.space import Space, equal_parts
from baselines.system import Task
from baselines.workload import Workload
from tianji.env_settings import ActionsConfig

UNCLIPPED = 1e9
"""Where a clip cannot be switched off: a bound that no reward and no value reaches."""
WORKERS = "workers"
"""Its option: the number of rollout workers."""
OLDER = {"HalfCheetah-v5": "HalfCheetah-v4"}
"""Environments of which its Gymnasium has an older version that moves alike."""
NEVER_S = 10**7
"""Seconds between two checkpoints, which nobody reads: more than any run takes."""


class SampleFactory(SeparateProgram):
    """Rollout workers, a policy worker and a learner, each a process; asynchronous PPO, as `tianji-relaxed` is."""

    name = "sample-factory"
    title = "Sample Factory APPO"
    environment = "sample-factory"
    module = "baselines.sample_factory.learn"
    gaussians = True

    def unable(self, workload: Workload) -> str | None:
        if (reason := super().unable(workload)) is not None:
            return reason
        ppo = workload.for_ppo
        if workload.round_steps % ppo.minibatch_size and ppo.minibatch_size < workload.round_steps:
            return f"a round of {workload.round_steps} steps is not a whole number of minibatches of {ppo.minibatch_size}"
        if workload.env not in OLDER and isinstance(workload.actions, ActionsConfig) and workload.env.endswith("-v5"):
            return f"it has Gymnasium 0.29, which has no {workload.env}"
        if not ppo.normalise_advantages:
            return "it has no setting that leaves advantages as they are"
        return None

    def workers(self, task: Task) -> int:
        """Rollout workers: one for each core, as its documentation advises, with an even number of environments if possible.

        A worker steps one half of its environments while the policy worker computes actions for the other half.
        """
        if WORKERS in task.options:
            return int(task.options[WORKERS])
        environments, able = task.workload.environments, equal_parts(task.workload, len(task.cores))
        return max([n for n in able if environments // n % 2 == 0] or able)

    def rollout(self, workload: Workload) -> int:
        """Steps of a rollout: a minibatch holds whole ones."""
        ppo = workload.for_ppo
        return math.gcd(ppo.rollout_steps, min(ppo.minibatch_size, workload.round_steps))

    def takes(self, option: str) -> bool:
        return option == WORKERS

    def space(self, task: Task) -> Space:
        able = equal_parts(task.workload, len(task.cores))
        closed = self.workers(task)
        return super().space(task).extended({WORKERS: able}, *({WORKERS: n} for n in dict.fromkeys((closed, *able))))

    def deviations(self, task: Task) -> list[str]:
        ppo = task.workload.for_ppo
        told = [
            "A round is the rollouts that arrive first, of weights of several versions; the learner does not wait for an "
            "environment.",
            f"A ratio is clipped below at {1 / (1 + ppo.clip):.3f}, not at {1 - ppo.clip:g}, and before that to 0.05 to 20.",
            "The value behind a time-out is taken to be that of the observation before it.",
            "Advantages are divided by the sample standard deviation of the minibatch (N - 1), not the population's (N).",
            "A round's epochs end when the actor's loss changes by less than 1e-6 from one epoch to the next.",
        ]
        if (steps := self.rollout(task.workload)) < ppo.rollout_steps:
            told.append(
                f"A rollout is {steps} steps, not {ppo.rollout_steps}, because a minibatch must hold whole ones: advantages "
                "are bootstrapped where it ends."
            )
        if task.workload.env in OLDER:
            told.append(f"It has Gymnasium 0.29, where the environment is {OLDER[task.workload.env]}.")
        if task.workload.normalises_observations:
            told.append(
                "Statistics of observations move with each minibatch that is trained on; what is normalised is clipped at 5."
            )
        if task.workload.normalises_rewards:
            told.append(normalisation.ALONE)
        if ppo.learning_rate_schedule == "linear":
            told.append(
                "The learning rate falls after each minibatch, not after each round; it has that schedule, but no option."
            )
        return told

    def settings(self, task: Task) -> dict[str, Any]:
        w, ppo, workers = task.workload, task.workload.for_ppo, self.workers(task)
        each = w.environments // workers
        minibatch = min(ppo.minibatch_size, w.round_steps)
        return {
            "environment": self.around(w),
            "options": {
                "algo": "APPO",
                "env": OLDER.get(w.env, w.env),
                "seed": task.seed,
                "device": "cpu",
                "async_rl": True,
                "serial_mode": False,
                "batched_sampling": False,
                "num_workers": workers,
                "num_envs_per_worker": each,
                "worker_num_splits": 2 if each % 2 == 0 else 1,
                # It would take random steps before the first round, which nobody counts.
                "decorrelate_envs_on_one_worker": False,
                "rollout": self.rollout(w),
                "batch_size": minibatch,
                "num_batches_per_epoch": w.round_steps // minibatch,
                "shuffle_minibatches": True,
                "num_epochs": ppo.epochs,
                "gamma": ppo.gamma,
                "gae_lambda": ppo.gae_lambda,
                "value_bootstrap": True,
                "with_vtrace": False,
                "ppo_clip_ratio": ppo.clip,
                "ppo_clip_value": UNCLIPPED,
                "value_loss_coeff": ppo.value_coefficient,
                "exploration_loss": "entropy",
                "exploration_loss_coeff": ppo.entropy_coefficient,
                "kl_loss_coeff": 0.0,
                "max_grad_norm": ppo.max_grad_norm,
                "optimizer": "adam",
                "learning_rate": ppo.learning_rate,
                "adam_eps": ppo.adam_epsilon,
                "reward_scale": 1.0,
                "reward_clip": UNCLIPPED,
                "normalize_input": w.normalises_observations,
                "adaptive_stddev": False,
                "normalize_returns": False,
                "use_rnn": False,
                "encoder_mlp_layers": list(w.network.hidden),
                "nonlinearity": w.network.activation,
                "actor_critic_share_weights": False,
                # The end of its linear schedule. The run ends by the budget.
                "train_for_env_steps": w.horizon_steps,
                "save_every_sec": NEVER_S,
                "save_best_every_sec": NEVER_S,
                "log_to_file": False,
            },
            "lr_schedule": "linear_decay" if ppo.learning_rate_schedule == "linear" else "constant",
            "round_steps": w.round_steps,
        }
