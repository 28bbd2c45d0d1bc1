"""The distributions of `tianji.algorithms.distributions` in torch, for autograd."""

from __future__ import annotations

import torch
from torch import Tensor


class Categorical:
    """One of A actions, with probabilities softmax(logits), for each of N rows of logits [N, A]."""

    def __init__(self, logits: Tensor) -> None:
        self._log = torch.log_softmax(logits, dim=1)

    def log_probability(self, action: Tensor) -> Tensor:
        """Log-probabilities of these actions, [N]."""
        return self._log.gather(1, action[:, None]).squeeze(1)

    def entropy(self) -> Tensor:
        """Entropies, [N]."""
        return -(self._log.exp() * self._log).sum(dim=1)
