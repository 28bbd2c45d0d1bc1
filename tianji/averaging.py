"""Model averaging over groups, and the messages between groups and their Root.

Groups train on their own data and average their models now and then, as in local SGD (Stich, 2019, arXiv 1805.09767). A
learner continues to train while the mean is computed. This is the project's reading of TianJi's asynchronous adoption
(docs/groups.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Vector = NDArray[np.float32]

FIELDS = 3
WORDS = 2 * FIELDS
"""Size of a stamp in a vector, in float32 words. Its integers are stored bit by bit."""


class Stamp(Struct, frozen=True, array_like=True):
    """Contribution of one group to a model."""

    number: int = 0
    """Number of the group's push that the model contains; 0: none yet."""
    samples: int = 0
    """Samples trained on since the push before, the weight of this push in the mean."""
    steps: int = 0
    """Environment steps of the group up to this push."""


def message_size(parameters: int, groups: int) -> int:
    """Length of the vector that carries a model of `parameters` parameters and a stamp for each group."""
    return parameters + groups * WORDS


def pack(out: Vector, model: Vector, stamps: Sequence[Stamp]) -> None:
    """Write a model and its stamps into a message."""
    out[: len(model)] = model
    table = np.array([[s.number, s.samples, s.steps] for s in stamps], np.int64)
    # Stored as bytes, because a float32 that is only moved keeps its bits.
    out[len(model) :].view(np.uint8)[:] = table.reshape(-1).view(np.uint8)


def stamps_of(message: Vector, parameters: int) -> tuple[Stamp, ...]:
    """The stamps of a message."""
    table = np.frombuffer(message[parameters:].tobytes(), np.int64).reshape(-1, FIELDS)
    return tuple(Stamp(*(int(n) for n in row)) for row in table)


def mean(models: Sequence[Vector], samples: Sequence[int]) -> Vector:
    """Mean of models, weighted by the samples behind each (equally if there are none).

    The latest model of each group counts once, however often the group pushes. Sums are in double precision, so that the mean
    of equal models is that model.
    """
    total = sum(samples)
    weights = [n / total for n in samples] if total else [1 / len(models)] * len(models)
    out = np.zeros(len(models[0]), np.float64)
    for model, weight in zip(models, weights, strict=True):
        out += weight * model.astype(np.float64)
    return out.astype(np.float32)
