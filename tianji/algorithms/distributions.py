"""Distributions of actions in NumPy: sampling, log-probability, entropy, and the gradients of both.

Another action space needs another class with these methods, and its counterpart in `tianji.algorithms.distributions_torch`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.flat import Vector


class Categorical:
    """One of A actions, with probabilities softmax(logits), for each of N rows.

    Logits are stored as [A, N], because NumPy reduces over a short last axis ten times slower.

    Parameters
    ----------
    logits : [A, N]
        overwritten.
    """

    def __init__(self, logits: Vector) -> None:
        # Ufuncs, here and below, because array methods take longer and this runs at every step.
        logits -= np.maximum.reduce(logits)
        self._probability = np.exp(logits)
        total = np.add.reduce(self._probability)
        self._probability /= total
        logits -= np.log(total)
        self._log, self._rows = logits, np.arange(logits.shape[1])

    @staticmethod
    def sample(logits: Vector, noise: NDArray[np.float64]) -> tuple[NDArray[np.int64], Vector]:
        """Draw actions by inversion.

        Parameters
        ----------
        logits : [N, A]
            as networks return them.
        noise : [N, 1]
            uniform on [0, 1)

        Returns
        -------
        actions [N] and their log-probabilities [N]
        """
        columns = logits.T
        shifted = columns - np.maximum.reduce(columns)
        cumulative = np.add.accumulate(np.exp(shifted))
        total = cumulative[-1]
        action = np.add.reduce(cumulative[:-1] <= noise[:, 0] * total)
        return action, shifted[action, np.arange(len(action))] - np.log(total)

    def log_probability(self, action: NDArray[np.int64]) -> Vector:
        """Log-probabilities of these actions, [N]."""
        chosen: Vector = self._log[action, self._rows]
        return chosen

    def entropy(self) -> Vector:
        """Entropies, [N]."""
        entropy: Vector = -np.add.reduce(self._probability * self._log)
        return entropy

    def loss_gradient(self, action: NDArray[np.int64], weight: Vector, entropy_weight: float) -> Vector:
        """Gradient in the logits, [A, N], of the negative sum of weight log pi(action) + entropy_weight H.

        With l = log pi(a): dl / d logits = onehot(a) - pi. The entropy H has slope -pi (log pi + H).
        """
        gradient = self._probability * weight
        gradient[action, self._rows] -= weight
        if entropy_weight:
            gradient += np.float32(entropy_weight) * self._probability * (self._log + self.entropy())
        return gradient
