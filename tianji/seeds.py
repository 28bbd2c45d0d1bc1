"""Where random numbers come from: every use of a run's seed has a stream of its own.

A stream is a `spawn_key` of NumPy's `SeedSequence`. Two streams never meet, whatever the numbers in their keys: an entropy of
`[seed, number]` would give environment 2448 the numbers of another use that wrote `[seed, 0x990]`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What random numbers are for, and what the rest of the key is."""

    ENVIRONMENT = 0
    """An environment and the actions in it. Key: its number over all actors; of a successor also its life and past steps."""
    MINIBATCHES = 1
    """The order of PPO's minibatches. Key: the group."""
    REPLAY = 2
    """What is drawn from a replay. Key: the group."""
    WEIGHTS = 3
    """Initial weights. No key: all groups begin with the same."""


def sequence(seed: int, stream: Stream, *key: int) -> np.random.SeedSequence:
    """The seed sequence of one use of a run's seed."""
    return np.random.SeedSequence(seed, spawn_key=(int(stream), *key))


def generator(seed: int, stream: Stream, *key: int) -> np.random.Generator:
    """A generator of one use of a run's seed."""
    return np.random.default_rng(sequence(seed, stream, *key))
