"""RLlib's PPO learner with the workload's Adam epsilon, which its configuration cannot express."""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner


def with_adam_epsilon(epsilon: float) -> type[PPOTorchLearner]:
    """The stock learner but for one argument of its optimizer."""

    class Learner(PPOTorchLearner):
        def configure_optimizers_for_module(self, module_id: Any, config: Any = None) -> None:
            parameters = self.get_parameters(self._module[module_id])
            self.register_optimizer(
                module_id=module_id,
                optimizer=torch.optim.Adam(parameters, eps=epsilon),
                params=parameters,
                lr_or_lr_schedule=config.lr,
            )

    return Learner
