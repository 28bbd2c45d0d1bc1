"""What a learner has its worker do, and what it hears when that is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tianji.messages import ChunkHeader


@dataclass(frozen=True)
class Update:
    """Work: take these chunks in and, if `train`, do one round of updates.

    `steps` environment steps, over all groups, came before these chunks. `stale`: one of them is of an older policy
    than the one that is trained.
    """

    chunks: Sequence[ChunkHeader]
    steps: int
    train: bool = True
    stale: bool = False


@dataclass(frozen=True)
class UpdateDone:
    """The chunks were taken in; their slots are free. `rows` were trained on in so many optimizer steps."""

    chunks: Sequence[ChunkHeader]
    optimizer_steps: int
    rows: int


@dataclass(frozen=True)
class Adopt:
    """Work: let the weights be the mean of the groups, and keep what was learned since they were pushed."""


@dataclass(frozen=True)
class Adopted:
    """The mean is adopted."""
