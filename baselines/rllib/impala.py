"""Translation of an IMPALA workload to RLlib's settings."""

from __future__ import annotations

from typing import Any

from baselines.rllib.learner import with_adam_epsilon
from baselines.workload import Workload
from tianji.config import IMPALAConfig

WAIT_S = 0.1
"""Seconds for which the driver waits for a fragment. By default it polls without rest, on a core that others need."""


def settings_of(workload: Workload) -> IMPALAConfig:
    """The IMPALA table. `TypeError` if the workload has none."""
    if workload.impala is None:
        raise TypeError(f"workload {workload.id} is not of IMPALA")
    return workload.impala


def asynchronous(workload: Workload, rollout_steps: int) -> list[str]:
    """Deviations that RLlib's IMPALA and APPO have in common, in words."""
    return [
        "Env runners sample while the learner trains; each has one fragment under way or waiting, and begins it with the "
        "newest weights that were handed out. RLlib hands out those from before the latest round of updates.",
        f"A round is {workload.environments} x {rollout_steps} steps as they arrive, not the next ones of each environment.",
        "Its batch holds one artificial, masked row more for each episode piece; they are counted as rows trained on.",
        f"V-trace runs over {rollout_steps} rows of that batch at a time. Where artificial rows move a rollout over such a "
        "border, its trace is cut there and bootstrapped by the value of the next row.",
    ]


def deviations(workload: Workload, runners: int, learners: int) -> list[str]:
    """Deviations of RLlib from the workload, in words."""
    impala = settings_of(workload)
    told = asynchronous(workload, impala.rollout_steps)
    if impala.c_clip != 1.0 or impala.vtrace_lambda != 1.0:
        told.append(
            f"V-trace's c-bar and lambda are 1, not {impala.c_clip} and {impala.vtrace_lambda}: RLlib has no setting for them."
        )
    return told


def training(workload: Workload, learners: int = 1) -> dict[str, Any]:
    """Keyword arguments of `IMPALAConfig.training`."""
    impala = settings_of(workload)
    linear = impala.learning_rate_schedule == "linear"
    return {
        "gamma": impala.gamma,
        "lr": [[0, impala.learning_rate], [workload.horizon_steps, 0.0]] if linear else impala.learning_rate,
        "train_batch_size_per_learner": workload.round_steps,
        "vtrace_clip_rho_threshold": impala.rho_clip,
        "vtrace_clip_pg_rho_threshold": impala.rho_clip,
        # It multiplies half of the squared error; the workload's, the whole of it.
        "vf_loss_coeff": 2 * impala.value_coefficient,
        "entropy_coeff": impala.entropy_coefficient,
        "grad_clip": impala.max_grad_norm,
        "grad_clip_by": "global_norm",
        "timeout_s_sampler_manager": WAIT_S,
    }


def base_config(workload: Workload) -> Any:
    """RLlib's configuration of this algorithm, before anything but the optimizer is set."""
    from ray.rllib.algorithms.impala import IMPALAConfig
    from ray.rllib.algorithms.impala.torch.impala_torch_learner import IMPALATorchLearner

    epsilon = settings_of(workload).adam_epsilon
    return IMPALAConfig().training(learner_class=with_adam_epsilon(IMPALATorchLearner, epsilon))


def minibatch(workload: Workload) -> int:
    """Rows of one optimizer step."""
    return workload.round_steps
