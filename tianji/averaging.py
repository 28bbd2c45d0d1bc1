"""What travels between groups and their Root: a model, and what is in it of each group; and how models are averaged.

Local steps on each group's own data with the models averaged now and then is local SGD (Stich, 2019, arXiv 1805.09767);
that a learner goes on while the mean is made is this project's reading of TianJi's asynchronous adoption
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
"""float32 words that a stamp takes in a vector: its integers lie there bit by bit."""


class Stamp(Struct, frozen=True, array_like=True):
    """What a model holds of one group."""

    number: int = 0
    """Which of the group's pushes; 0: none yet."""
    samples: int = 0
    """Trained on since the push before: the weight of this push in the mean."""
    steps: int = 0
    """Environment steps of the group up to then."""


def message_size(parameters: int, groups: int) -> int:
    """Length of the vector that carries a model of so many parameters and a stamp for each group."""
    return parameters + groups * WORDS


def pack(out: Vector, model: Vector, stamps: Sequence[Stamp]) -> None:
    """Write a model and its stamps into a message."""
    out[: len(model)] = model
    table = np.array([[s.number, s.samples, s.steps] for s in stamps], np.int64)
    # As bytes: a float32 that is merely moved keeps its bits, whatever number they would spell.
    out[len(model) :].view(np.uint8)[:] = table.reshape(-1).view(np.uint8)


def stamps_of(message: Vector, parameters: int) -> tuple[Stamp, ...]:
    """The stamps of a message."""
    table = np.frombuffer(message[parameters:].tobytes(), np.int64).reshape(-1, FIELDS)
    return tuple(Stamp(*(int(n) for n in row)) for row in table)


def mean(models: Sequence[Vector], samples: Sequence[int]) -> Vector:
    """Mean of models, each weighted by the samples behind it (all alike where there are none).

    The latest model of each group counts once, however often the group pushes. Sums are of double precision, so the mean
    of one model, or of equal ones, is that model.
    """
    total = sum(samples)
    weights = [n / total for n in samples] if total else [1 / len(models)] * len(models)
    out = np.zeros(len(models[0]), np.float64)
    for model, weight in zip(models, weights, strict=True):
        out += weight * model.astype(np.float64)
    return out.astype(np.float32)
