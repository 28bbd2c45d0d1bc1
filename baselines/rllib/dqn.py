"""Translation of a DQN workload to RLlib's settings."""

from __future__ import annotations

from typing import Any

from baselines.rllib.learner import with_adam_epsilon
from baselines.workload import Workload


def deviations(workload: Workload, runners: int, learners: int) -> list[str]:
    """Deviations of RLlib from the workload, in words, for `runners` places that sample and `learners` that train."""
    shared = [
        f"Each of {learners} learners takes {workload.for_dqn.batch_size // learners} rows of every batch, "
        f"{workload.for_dqn.batch_size} together as in all systems, and their gradients are averaged before they are clipped; "
        "the replay is one, in the driver."
    ]
    return [
        "The target network is copied after the first optimizer step of a round, not before it: RLlib looks whether a copy "
        "is due after each step.",
        "Its replay holds episodes and draws transitions from them; next observations are the episode's own.",
        *(shared if learners > 1 else []),
    ]


def training(workload: Workload, learners: int = 1) -> dict[str, Any]:
    """Keyword arguments of `DQNConfig.training`: plain DQN, without the extensions that are its defaults.

    What is a learner's own there is its share of the whole.
    """
    dqn = workload.for_dqn
    return {
        "gamma": dqn.gamma,
        "lr": dqn.learning_rate,
        "train_batch_size_per_learner": dqn.batch_size // learners,
        "training_intensity": dqn.updates * dqn.batch_size / dqn.train_every_steps,
        "num_steps_sampled_before_learning_starts": dqn.learning_starts,
        "target_network_update_freq": dqn.target_every_steps,
        "double_q": False,
        "dueling": False,
        "noisy": False,
        "num_atoms": 1,
        "n_step": 1,
        "td_error_loss_fn": "huber",
        "epsilon": [[0, dqn.epsilon_start], [dqn.epsilon_steps, dqn.epsilon_end]],
        "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": dqn.replay_capacity},
        "grad_clip": dqn.max_grad_norm,
        "grad_clip_by": "global_norm",
    }


def base_config(workload: Workload) -> Any:
    """RLlib's configuration of this algorithm, before anything but the optimizer is set."""
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner

    return DQNConfig().training(learner_class=with_adam_epsilon(DQNTorchLearner, workload.for_dqn.adam_epsilon))


def minibatch(workload: Workload) -> int:
    """Rows of one optimizer step."""
    return workload.for_dqn.batch_size
