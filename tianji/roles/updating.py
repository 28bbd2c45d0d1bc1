"""Work of a learner's worker, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tianji.messages import ChunkHeader


@dataclass(frozen=True)
class Update:
    """Work: read these chunks and, if `train` is set, do one round of updates.

    `steps` is the number of environment steps before these chunks, over all groups. `stale` says whether one of them comes
    from an older policy than the one that is trained. `share` is their share of their round's rows, where gradients
    accumulate; `train` then marks the last chunks of the round.
    """

    chunks: Sequence[ChunkHeader]
    steps: int
    train: bool = True
    stale: bool = False
    share: float | None = None


@dataclass
class Round:
    """The round that is being trained on: more than one piece of work where gradients accumulate."""

    producers: set[int] = field(default_factory=set)
    """Producers of its chunks so far."""
    chunks: int = 0
    samples: int = 0
    rows: int = 0
    took_ns: int = 0

    def add(self, chunks: Sequence[ChunkHeader]) -> None:
        """Count chunks that are trained on now."""
        self.producers.update(chunk.producer for chunk in chunks)
        self.chunks += len(chunks)
        self.samples += sum(chunk.count for chunk in chunks)


@dataclass(frozen=True)
class UpdateDone:
    """Result of `Update`: the slots are free. It has the rows trained on and the number of optimizer steps."""

    chunks: Sequence[ChunkHeader]
    optimizer_steps: int
    rows: int


@dataclass(frozen=True)
class Adopt:
    """Work: adopt the mean of the groups as weights, and keep what was learned since the push."""


@dataclass(frozen=True)
class Adopted:
    """Result of `Adopt`: the mean was adopted."""
