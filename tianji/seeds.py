"""Random numbers: every use of a run's seed has its own stream.

A stream is a `spawn_key` of NumPy's `SeedSequence`, so that streams never overlap, whatever the numbers in their keys. With an
entropy of `[seed, number]`, environment 2448 would share its numbers with another use that wrote `[seed, 0x990]`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """Use of random numbers, with the rest of its key."""

    ENVIRONMENT = 0
    """An environment and its actions. Key: its number over all actors; for a restarted actor also its life and past steps."""
    MINIBATCHES = 1
    """Order of PPO's minibatches. Key: the group."""
    REPLAY = 2
    """Draws from a replay. Key: the group."""
    WEIGHTS = 3
    """Initial weights. No key, because all groups start with the same."""


def sequence(seed: int, stream: Stream, *key: int) -> np.random.SeedSequence:
    """Seed sequence of one use of a run's seed."""
    return np.random.SeedSequence(seed, spawn_key=(int(stream), *key))


def generator(seed: int, stream: Stream, *key: int) -> np.random.Generator:
    """Random generator of one use of a run's seed."""
    return np.random.default_rng(sequence(seed, stream, *key))
