"""Division of a host's cores between sampling and learning, where a learner trains on pictures beside its actors.

The model has two terms, in floating-point operations for each environment step. Sampling is an environment's step and a
forward pass. Learning is three forward passes (one, and a backward pass of two) for each row that is trained on. The share of
sampling in their sum is its share of the cores. Both terms scale with a core's speed, so that the share hardly depends on the
machine (docs/notebook/2026-11-speed.md has what was measured). Minibatches from a replay are too small for threads to pay.
"""

from __future__ import annotations

import math

ENVIRONMENT_FLOP = 40e6
"""A step of an environment of pictures, as operations: .3 ms of a core that does 130 GFLOP/s, as a game of Atari takes."""


def sampling_share(forward_flop: float, reuse: float) -> float:
    """Share of sampling in the work of a run, 0..1.

    Parameters
    ----------
    forward_flop
        operations of a forward pass for one observation (`tianji.trunks.forward_flop`).
    reuse
        rows that are trained on, per environment step.
    """
    sampling = ENVIRONMENT_FLOP + forward_flop
    return sampling / (sampling + reuse * 3 * forward_flop)


def actors_by_need(share: float, usable: float, environments: int) -> int:
    """Number of actors that are enough for sampling: it divides the environments, and is at most one a core."""
    most = max(1, min(int(usable), environments))
    need = math.ceil(share * int(usable))
    return next((count for count in range(max(1, need), most) if environments % count == 0), most)


def threads_by_need(share: float, usable: float) -> int:
    """Number of threads that are enough for learning."""
    return max(1, math.ceil((1 - share) * int(usable)))
