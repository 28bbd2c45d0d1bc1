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
Exact = NDArray[np.float64]

FIELDS = 3
STAMPS = 2
"""Stamps of a message; see `Stamps`."""
WORDS = 2 * FIELDS * STAMPS
"""Size of the stamps in a message, in float32 words. Their integers are stored bit by bit."""


class Stamp(Struct, frozen=True, array_like=True):
    """Contribution to a model of one group, of the groups under a Root, or of all others together."""

    number: int = 0
    """Number of the push that the model contains; 0: none yet. Of the others: how many groups the model contains of them."""
    samples: int = 0
    """Samples trained on since the push before, the weight of this push in the mean; 0 for the others."""
    steps: int = 0
    """Environment steps up to these pushes."""


Stamps = tuple[Stamp, Stamp]
"""Stamps of the group that sends or receives a model, and of all others together. So a message does not grow with the number of
groups. An inner Root sends the stamp of all groups under it, and as number of the others how many groups it has beyond one."""


def message_size(parameters: int, statistics: int = 0) -> int:
    """Length of the vector that carries a model of `parameters` parameters, statistics in double precision, and its stamps."""
    return parameters + 2 * statistics + WORDS


def pack(out: Vector, model: Vector, stamps: Stamps, statistics: Exact | None = None) -> None:
    """Write a model, its stamps and statistics into a message."""
    out[: len(model)] = model
    mark(out, stamps)
    if statistics is not None:
        keep(out, statistics)


def keep(out: Vector, statistics: Exact) -> None:
    """Write statistics into a message, between its model and its stamps, bit by bit."""
    end = len(out) - WORDS
    out[end - 2 * len(statistics) : end].view(np.uint8)[:] = statistics.view(np.uint8)


def statistics_of(message: Vector, count: int) -> Exact:
    """The statistics in a message, so many numbers."""
    end = len(message) - WORDS
    return np.frombuffer(message[end - 2 * count : end].tobytes(), np.float64)


def mark(out: Vector, stamps: Stamps) -> None:
    """Write stamps into a message, and leave its model as it is."""
    table = np.array([[s.number, s.samples, s.steps] for s in stamps], np.int64)
    # Stored as bytes, because a float32 that is only moved keeps its bits.
    out[-WORDS:].view(np.uint8)[:] = table.reshape(-1).view(np.uint8)


def stamps_of(message: Vector) -> Stamps:
    """The stamps of a message."""
    table = np.frombuffer(message[-WORDS:].tobytes(), np.int64).reshape(-1, FIELDS)
    own, others = (Stamp(*(int(n) for n in row)) for row in table)
    return own, others


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
