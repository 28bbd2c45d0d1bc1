"""What disciplines and their laws depend on: sizes of a run, and the work since weights went out."""

from __future__ import annotations

from msgspec import Struct


class Facts(Struct, frozen=True, kw_only=True):
    """Sizes of one group of a run, from which a discipline is made."""

    producers: int
    """Number of actors."""
    slots: int
    """Chunks that each actor can have in flight."""
    round_chunks: int
    """Chunks in one round of updates."""
    chunk_samples: int
    """Environment steps in one chunk."""
    reuse: float
    """Rows that a round trains on, per environment step of the round."""
    replays: bool = False
    """Whether chunks are copied into a replay. If not, each is trained on in its slot, in one round."""
    corrects: bool = False
    """Whether updates correct for samples from an older policy."""
    one_step: bool = False
    """Whether a round is one optimizer step on the mean loss over all of its rows."""
    gathered: int | None = None
    """Chunks that a buffer gathers before it passes them on, as set by the user; None: the discipline decides."""
    free_samples: int = 0
    """Samples that fill a replay before training begins."""
    least_bound: int = 0
    """Smallest bound on staleness, in rounds, when the bound follows measured speeds."""


class Unpublished(Struct, frozen=True):
    """Work that a learner has done since it last published its weights."""

    updates: int = 0
    """Optimizer steps."""
    worked_ns: int = 0
    """Duration of its work, without the time in which it waited."""

    def reaches(self, period: Unpublished) -> bool:
        """Whether it is as much as this in both counts."""
        return self.updates >= period.updates and self.worked_ns >= period.worked_ns
