"""RLlib's learners with the workload's Adam epsilon, which its configuration cannot express."""

from __future__ import annotations

from typing import Any


def with_adam_epsilon(base: Any, epsilon: float) -> Any:
    """The stock learner class but for one argument of its optimizer."""
    import torch

    class Learner(base):
        def configure_optimizers_for_module(self, module_id: Any, config: Any = None) -> None:
            parameters = self.get_parameters(self._module[module_id])
            self.register_optimizer(
                module_id=module_id,
                optimizer=torch.optim.Adam(parameters, eps=epsilon),
                params=parameters,
                lr_or_lr_schedule=config.lr,
            )

    return Learner
