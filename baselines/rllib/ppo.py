"""How a PPO workload is put to RLlib."""

from __future__ import annotations

from typing import Any

from baselines.rllib.learner import with_adam_epsilon
from baselines.workload import Workload

DEVIATIONS = [
    "A round holds 256 to 263 transitions, not exactly 256: its env runner stops at the first vector step that "
    "reaches the count, after leaving out reset rows.",
    "Its batch holds one artificial, masked row more for each episode piece, and minibatches of 256 cycle through "
    "it until every row was used 20 times: 21 or 22 optimizer steps a round, each on somewhat fewer than 256 "
    "transitions.",
    "Advantages are normalised over the whole batch, those rows included, once a round, not for each minibatch; "
    "the two are the same set here.",
]


def training(workload: Workload) -> dict[str, Any]:
    """Keyword arguments of `PPOConfig.training`."""
    ppo = workload.for_ppo
    linear = ppo.learning_rate_schedule == "linear"
    return {
        "gamma": ppo.gamma,
        "lambda_": ppo.gae_lambda,
        "lr": [[0, ppo.learning_rate], [workload.horizon_steps, 0.0]] if linear else ppo.learning_rate,
        "train_batch_size_per_learner": workload.round_steps,
        "minibatch_size": ppo.minibatch_size,
        "num_epochs": ppo.epochs,
        "clip_param": ppo.clip,
        "use_kl_loss": False,
        "kl_coeff": 0.0,
        "vf_loss_coeff": ppo.value_coefficient,
        # It cannot be switched off, only be made too large to matter.
        "vf_clip_param": float(2**100),
        "entropy_coeff": ppo.entropy_coefficient,
        "grad_clip": ppo.max_grad_norm,
        "grad_clip_by": "global_norm",
    }


def base_config(workload: Workload) -> Any:
    """RLlib's configuration of this algorithm, before anything but the optimizer is set."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

    return PPOConfig().training(learner_class=with_adam_epsilon(PPOTorchLearner, workload.for_ppo.adam_epsilon))


def minibatch(workload: Workload) -> int:
    """Rows of one optimizer step."""
    return min(workload.for_ppo.minibatch_size, workload.round_steps)
