"""Learner: trains when it holds a round of experience, then publishes its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tianji.balance import SequenceLedger, StalenessLedger
from tianji.messages import ChunkHeader, ProtocolError
from tianji.roles.role import (
    Announce,
    Arrived,
    Begin,
    Effect,
    Event,
    PublishWeights,
    Release,
    Role,
    TakeSnapshot,
    Trigger,
    Waiting,
    Work,
    WorkDone,
)


@dataclass(frozen=True)
class Update:
    """Work: train on these chunks, the first of which begins at environment step `steps`."""

    chunks: Sequence[ChunkHeader]
    steps: int


@dataclass(frozen=True)
class UpdateDone:
    """The chunks were trained on."""

    chunks: Sequence[ChunkHeader]
    optimizer_steps: int


@dataclass
class Learner(Role):
    """State of one on-policy learner.

    Parameters
    ----------
    port
        where chunks arrive.
    layout
        id that every chunk must have.
    round_chunks
        chunks in one update round.
    budget_steps
        environment steps; no round is begun that would exceed it.
    snapshot_every_steps
        the policy is handed out at the end of each round that passes a multiple of this, before the first and after
        the last.
    staleness_bound
        see `StalenessLedger`.
    """

    port: str
    layout: int
    round_chunks: int
    budget_steps: int
    snapshot_every_steps: int
    staleness_bound: int | None = 0
    version: int = field(default=0, init=False)
    steps: int = field(default=0, init=False)
    announced: bool = field(default=False, init=False)
    snapshot_version: int = field(default=-1, init=False)
    pending: list[ChunkHeader] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.staleness = StalenessLedger(self.staleness_bound)
        self.sequences = SequenceLedger()
        self.consumed = 0
        super().__post_init__()

    def table(self) -> tuple[Trigger, ...]:
        return (Trigger("update", self._may_update, self._update),)

    def _may_update(self) -> bool:
        return not self.working and self.stopping is None and not self.announced and len(self.pending) >= self.round_chunks

    def _update(self) -> list[Effect]:
        batch, self.pending = self.pending[: self.round_chunks], self.pending[self.round_chunks :]
        # Order of arrival is chance; order of producer is not. The sum over a batch then is the same in every run.
        batch.sort(key=lambda chunk: (chunk.producer, chunk.sequence))
        self.working = True
        return [Work(Update(batch, self.steps))]

    def absorb(self, event: Event) -> list[Effect]:
        match event:
            case Begin():
                return [PublishWeights(0), self._snapshot()]
            case Arrived(chunks=chunks):
                return self._take_in(chunks)
            case WorkDone(result=UpdateDone() as done):
                return self._updated(done)
        return []

    def _take_in(self, chunks: Sequence[ChunkHeader]) -> list[Effect]:
        evicted = []
        for chunk in chunks:
            if chunk.layout != self.layout:
                raise ProtocolError(f"chunk of producer {chunk.producer} has layout {chunk.layout}, not {self.layout}")
            self.sequences.see(chunk.producer, chunk.sequence)
            if self.staleness.admit(self.version, chunk.version, chunk.count):
                self.pending.append(chunk)
            else:
                evicted.append(chunk.slot)
        return [Release(self.port, evicted)] if evicted else []

    def _updated(self, done: UpdateDone) -> list[Effect]:
        samples = sum(chunk.count for chunk in done.chunks)
        before, self.steps = self.steps, self.steps + samples
        self.version += done.optimizer_steps
        self.consumed += samples
        last = self.steps + samples > self.budget_steps
        # Whoever waits comes first: actors get their weights before anything else is done. A round without an optimizer
        # step (a replay that is still filling) has nothing to publish.
        effects: list[Effect] = [] if last or not done.optimizer_steps else [PublishWeights(self.version)]
        if not last:  # Credit would start a fragment that nobody trains on.
            effects.append(Release(self.port, [chunk.slot for chunk in done.chunks]))
        if last or before // self.snapshot_every_steps != self.steps // self.snapshot_every_steps:
            effects.append(self._snapshot())
        if last:
            self.announced = True
            effects.append(Announce("steps"))
        return effects

    def _snapshot(self) -> Effect:
        self.snapshot_version = self.version
        return TakeSnapshot(self.version, self.steps)

    def closing(self) -> list[Effect]:
        # However it ended: the last policy is handed out.
        return [] if self.snapshot_version == self.version else [self._snapshot()]

    def waiting_for(self) -> Waiting:
        return "stop" if self.announced else "samples"

    def counters(self) -> dict[str, float]:
        return {
            "steps": float(self.steps),
            "optimizer_steps": float(self.version),
            "samples_consumed_unique": float(self.consumed),
            "chunks_lost": float(self.sequences.lost),
            "chunks_duplicated": float(self.sequences.duplicated),
            **self.staleness.counters(),
        }
