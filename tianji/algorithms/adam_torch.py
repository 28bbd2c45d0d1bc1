"""torch's Adam over one flat vector, stored and restored as the NumPy one is (`tianji.algorithms.adam.Adam.state`)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tianji.algorithms.adam import BETAS
from tianji.algorithms.state import Arrays


def make(flat: Tensor, epsilon: float) -> torch.optim.Adam:
    """Adam, in one fused pass over the vector."""
    return torch.optim.Adam([flat], betas=BETAS, eps=epsilon, fused=True)


def state(optimizer: torch.optim.Adam, flat: Tensor) -> Arrays:
    """Moments and number of steps, as NumPy arrays."""
    kept = optimizer.state.get(flat)
    if not kept:
        zeros = np.zeros(flat.numel(), np.float32)
        return {"first_moment": zeros, "second_moment": zeros.copy(), "optimizer_steps": np.array(0, np.int64)}
    return {
        "first_moment": kept["exp_avg"].cpu().numpy(),
        "second_moment": kept["exp_avg_sq"].cpu().numpy(),
        "optimizer_steps": np.array(int(kept["step"].item()), np.int64),
    }


def restore(optimizer: torch.optim.Adam, flat: Tensor, arrays: Arrays) -> None:
    """Set what `state` gave."""
    optimizer.state[flat] = {
        # A fused optimizer wants its count beside the vector.
        "step": torch.tensor(float(arrays["optimizer_steps"]), device=flat.device),
        "exp_avg": torch.tensor(arrays["first_moment"], device=flat.device),
        "exp_avg_sq": torch.tensor(arrays["second_moment"], device=flat.device),
    }
