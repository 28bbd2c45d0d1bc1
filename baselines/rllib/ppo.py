"""Translation of a PPO workload to RLlib's settings."""

from __future__ import annotations

from typing import Any

from baselines.rllib.learner import with_adam_epsilon
from baselines.workload import Workload


def deviations(workload: Workload, runners: int, learners: int) -> list[str]:
    """Deviations of RLlib from the workload, in words, for `runners` places that sample and `learners` that train."""
    ppo, steps = workload.for_ppo, workload.round_steps
    share = learner_share(workload, learners)
    told = [
        f"A round holds {steps} to {steps + workload.environments - runners} transitions, not exactly {steps}: an env runner "
        "stops at the first vector step that reaches the count, after leaving out reset rows.",
        "Its batch holds one artificial, masked row more for each episode piece; they are counted as rows trained on, and a "
        f"minibatch is somewhat fewer than {minibatch(workload)} transitions.",
    ]
    if learners == 1:
        return [
            *told,
            f"Minibatches cycle through the batch until every row was used {ppo.epochs} times: somewhat more optimizer steps "
            f"than {ppo.epochs * steps // minibatch(workload)} a round.",
            "Advantages are normalised over the whole batch, those rows included, once a round, not for each minibatch.",
        ]
    return [
        *told,
        f"Each of {learners} learners takes {share} rows of every minibatch, {minibatch(workload)} together as in all systems, "
        "and their gradients are averaged before they are clipped; a learner's mean is over the real rows of its share.",
        "A round is dealt out to the learners in equal shares: an episode is cut where a share is full, and its advantages "
        "are bootstrapped there.",
        "Advantages are normalised over a learner's share of the round, those rows included, once a round.",
        f"There are as many optimizer steps a round as {ppo.epochs} passes over the transitions would make; with the "
        "artificial rows some are used a time less.",
    ]


def training(workload: Workload, learners: int = 1) -> dict[str, Any]:
    """Keyword arguments of `PPOConfig.training`; what is a learner's own there is its share of the whole."""
    ppo = workload.for_ppo
    linear = ppo.learning_rate_schedule == "linear"
    return {
        "gamma": ppo.gamma,
        "lambda_": ppo.gae_lambda,
        "lr": [[0, ppo.learning_rate], [workload.horizon_steps, 0.0]] if linear else ppo.learning_rate,
        "train_batch_size_per_learner": workload.round_steps // learners,
        "minibatch_size": learner_share(workload, learners),
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


def learner_share(workload: Workload, learners: int) -> int:
    """Rows of one optimizer step on each of `learners` learners."""
    # Alone it is given the number as it stands: it cycles through a round that is smaller.
    return workload.for_ppo.minibatch_size if learners == 1 else minibatch(workload) // learners
