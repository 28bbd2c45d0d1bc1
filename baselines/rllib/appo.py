"""Translation of a PPO workload to RLlib's APPO, its asynchronous PPO (Luo et al., 2020, arXiv 1912.00167)."""

from __future__ import annotations

from typing import Any

from baselines.rllib import ppo
from baselines.rllib.impala import WAIT_S, asynchronous
from baselines.rllib.learner import with_adam_epsilon
from baselines.workload import Workload


def deviations(workload: Workload, runners: int, learners: int) -> list[str]:
    """Deviations of RLlib from the workload, in words."""
    told, c = asynchronous(workload, workload.for_ppo.rollout_steps), workload.for_ppo
    told += [
        "Targets and advantages are V-trace's under an old policy, with lambda 1, not generalised advantages with lambda "
        f"{c.gae_lambda}, and they are computed again from the present values for each minibatch.",
        "The clipped ratio is that to the policy that sampled, times that policy's ratio to the old one, which is at most 2.",
        "The old policy is replaced by the present one after each round of updates.",
        f"Minibatches are slices of {c.minibatch_size} rows in the order of the batch, which is not shuffled.",
    ]
    return told + ["Advantages are not normalised: it has no such setting."] * c.normalise_advantages


def training(workload: Workload, learners: int = 1) -> dict[str, Any]:
    """Keyword arguments of `APPOConfig.training`."""
    shared = (
        "gamma",
        "lr",
        "num_epochs",
        "clip_param",
        "use_kl_loss",
        "kl_coeff",
        "entropy_coeff",
        "grad_clip",
        "grad_clip_by",
    )
    theirs, c = ppo.training(workload), workload.for_ppo
    whole = c.minibatch_size >= workload.round_steps
    return {name: theirs[name] for name in shared} | {
        "train_batch_size_per_learner": workload.round_steps,
        # None: the whole batch, artificial rows included.
        "minibatch_size": None if whole else c.minibatch_size,
        "shuffle_batch_per_epoch": False,
        # It multiplies half of the squared error; the workload's, the whole of it.
        "vf_loss_coeff": 2 * c.value_coefficient,
        # A batch is trained on once, for all epochs: repetition is the workload's number of epochs, not a buffer's.
        "use_circular_buffer": False,
        "circular_buffer_num_batches": 1,
        "circular_buffer_iterations_per_batch": 1,
        "simple_queue_size": 1,
        "target_network_update_freq": 1,
        "timeout_s_sampler_manager": WAIT_S,
    }


def base_config(workload: Workload) -> Any:
    """RLlib's configuration of this algorithm, before anything but the optimizer is set."""
    from ray.rllib.algorithms.appo import APPOConfig
    from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner

    return APPOConfig().training(learner_class=with_adam_epsilon(APPOTorchLearner, workload.for_ppo.adam_epsilon))


def minibatch(workload: Workload) -> int:
    """Rows of one optimizer step."""
    return ppo.minibatch(workload)
