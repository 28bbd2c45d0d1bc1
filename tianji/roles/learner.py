"""Learner: takes experience in, trains when the balance allows, publishes its weights, and hands out credit.

One state machine for all algorithms. They differ in whether a chunk is trained on once, in its slot (PPO, IMPALA), or is
copied into a replay that training draws from (DQN); in what may be stale; and in whether a mean of groups is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tianji.balance import Balance
from tianji.credits import Credits
from tianji.messages import LIFE, ChunkHeader, ProtocolError
from tianji.roles.fusion import Fusion, Membership
from tianji.roles.role import (
    Announce,
    Arrived,
    Begin,
    Effect,
    Event,
    ModelArrived,
    PublishWeights,
    Release,
    Role,
    SaveAsked,
    SaveState,
    TakeSnapshot,
    Trigger,
    Waiting,
    Work,
    WorkDone,
)
from tianji.roles.training import Adopt, Adopted, Update, UpdateDone
from tianji.staleness import Lag, SequenceLedger, StalenessLedger, Versions

TOTALS = ("version", "steps", "optimizer_steps", "rounds")
FUSION_TOTALS = ("adopted", "steps_elsewhere")
"""What a learner and its exchange with the Root count, and their successors count on from."""


@dataclass
class Learner(Role):
    """State of one learner.

    Parameters
    ----------
    port
        where chunks arrive.
    layout
        id that every chunk must have.
    balance
        the rule that says when to train and when to give credit.
    staleness
        which chunks may be trained on.
    reuses
        True where chunks go to a replay on arrival; False trains on each chunk once, in its slot.
    budget_steps
        environment steps; no round is begun that would exceed it. Of this group alone, or, where groups do not wait for each
        other, of all of them: as many as this one knows of. So a fast group does not idle at the end for a slow one.
    snapshot_every_steps
        the policy is handed out at the end of each round that passes a multiple of this, before the first and after
        the last; None never does.
    membership
        of a group that is averaged with others, or waits for a Root alone; None where there is no Root.
    saves
        whether its state is stored when it ends.
    """

    port: str
    layout: int
    balance: Balance
    staleness: StalenessLedger
    reuses: bool
    budget_steps: int
    snapshot_every_steps: int | None
    membership: Membership | None = None
    saves: bool = False
    version: int = field(default=0, init=False)
    """Changes of the weights: optimizer steps, and means adopted."""
    steps: int = field(default=0, init=False)
    """Environment steps of this group that were taken in."""
    optimizer_steps: int = field(default=0, init=False)
    rounds: int = field(default=0, init=False)
    announced: bool = field(default=False, init=False)
    snapshot_version: int = field(default=-1, init=False)
    pending: list[ChunkHeader] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.sequences = SequenceLedger(LIFE)
        balance = self.balance
        self.credits = Credits(balance.producers, balance.slots // balance.producers, balance.first_credit)
        self.versions = Versions(balance.producers)
        self.fusion = Fusion(self.membership)
        self._under_way: Sequence[ChunkHeader] = ()
        """Chunks that the worker reads."""
        self._look_for_overtaken = False
        """The learner or the bound has moved since what waits was last looked through."""
        self._save_due = False
        self._training = False
        self._snapshot_due = False
        super().__post_init__()

    def table(self) -> tuple[Trigger, ...]:
        return (
            Trigger("adopt", lambda: self._free() and self.fusion.mean_is_here, self._adopt),
            Trigger("finish", lambda: self._free() and not self.announced and self._exhausted(), self._finish),
            Trigger("credit", self._may_credit, self._credit),
            Trigger("save", lambda: self._free() and self._save_due, self._save),
            Trigger("snapshot", lambda: self._free() and self._snapshot_due, self._snapshot),
            Trigger("evict", lambda: not self.working and self._look_for_overtaken, self._evict),
            Trigger("take in", lambda: self._free() and self.reuses and self._may_take_in(), self._take_in),
            Trigger("update", lambda: self._free() and not self.reuses and self._may_update(), self._update),
            # The last: who gets here free has nothing to train on.
            Trigger("widen", lambda: self._free() and not self.announced and self._may_widen(), self._widen),
        )

    # Conditions

    def _stopped(self) -> bool:
        return self.stopping is not None or self.announced

    def _free(self) -> bool:
        barrier = self.fusion.awaits_mean and not self.fusion.mean_is_here
        return not self.working and self.stopping is None and not barrier

    def _exhausted(self) -> bool:
        """Whether another round would exceed the budget, and all that was taken in has been trained on."""
        over = self._spent() + self._next_samples() > self.budget_steps
        return over and (not self.reuses or self.balance.mode == "off" or not self.balance.may_train())

    def _spent(self) -> int:
        """Environment steps that count towards the budget."""
        return self.steps + self.fusion.steps_elsewhere if self.fusion.shares_budget else self.steps

    def _next_samples(self) -> int:
        return self.balance.chunk_samples if self.reuses else self.balance.round_samples

    def _may_take_in(self) -> bool:
        if self.announced:
            return False
        fits = self.pending and self._spent() + self.pending[0].count <= self.budget_steps
        return bool(fits) or self.balance.may_train()

    def _may_update(self) -> bool:
        return not self.announced and len(self.pending) >= self.balance.round_chunks

    def _may_credit(self) -> bool:
        return self.credits.idle > 0 and not self._stopped() and self.balance.may_grant()

    def _may_widen(self) -> bool:
        """Whether credit is withheld although this learner lacks samples."""
        return self.credits.idle > 0 and self.balance.may_widen(idle_actor=self.credits.someone_waits())

    def _lag(self, chunk: ChunkHeader) -> Lag:
        """How far the learner is ahead of a chunk's policy."""
        return Lag(self.version - chunk.version, self.rounds - self.versions.rounds(chunk.version))

    # Calls

    def _evict(self) -> list[Effect]:
        """Drop chunks that were admitted and would be beyond the bound if they were trained on now."""
        self._look_for_overtaken = False
        self._follow_speeds()
        if self.staleness.bound is None or self.staleness.correct:
            return []
        waiting, self.pending = self.pending, []
        for chunk in waiting:
            if self.staleness.within(self._lag(chunk).rounds):
                self.pending.append(chunk)
                continue
            self.staleness.evict(chunk.count)
            if self.reuses:
                self.balance.arrive(1)
            else:
                self.balance.withdraw(chunk.count)
            self.credits.reclaim(chunk.slot)
        return []

    def _take_in(self) -> list[Effect]:
        """Replay: all that came goes in, and a round follows if there is one to do."""
        before, taken = self.steps, 0
        for chunk in self.pending:
            if self._spent() + chunk.count > self.budget_steps:
                break
            self.steps += chunk.count
            self.balance.arrive(1)
            self.balance.insert(chunk.count)
            self.staleness.use(self._lag(chunk))
            taken += 1
        chunks, self.pending = self.pending[:taken], self.pending[taken:]
        self._mark_snapshot(before)
        return self._begin(Update(chunks, before + self.fusion.steps_elsewhere, train=self.balance.may_train()))

    def _update(self) -> list[Effect]:
        """Once each: a round of the chunks that came first."""
        n = self.balance.round_chunks
        chunks, self.pending = self.pending[:n], self.pending[n:]
        # Order of arrival is chance; order of producer is not. The sum over a batch then is the same in every run.
        chunks.sort(key=lambda chunk: (chunk.producer, chunk.sequence))
        before = self.steps
        for chunk in chunks:
            self.steps += chunk.count
            self.staleness.use(self._lag(chunk))
        self._mark_snapshot(before)
        stale = any(chunk.version < self.version for chunk in chunks)
        return self._begin(Update(chunks, before + self.fusion.steps_elsewhere, stale=stale))

    def _begin(self, update: Update) -> list[Effect]:
        self.working = True
        self._under_way = update.chunks
        self._training = update.train
        if update.train:
            self.balance.begin_round()
        return [Work(update)]

    def _credit(self) -> list[Effect]:
        """Give back as many slots as may be, first to the actors that have the least credit."""
        granted = []
        while self.credits.idle and self.balance.may_grant():
            self.balance.grant()
            granted.append(self.credits.grant())
        return [Release(self.port, granted)]

    def _widen(self) -> list[Effect]:
        self.balance.widen(idle_actor=self.credits.someone_waits())
        return []

    def _adopt(self) -> list[Effect]:
        self.working = True
        self.fusion.adopt()
        return [Work(Adopt())]

    def _answered(self, *, publish: bool) -> list[Effect]:
        """The Root's answer to our latest push is in the weights."""
        self.fusion.answered()
        return [*self.fusion.push(self.steps), *(self._publish() if publish else [])]

    def _finish(self) -> list[Effect]:
        self.announced = True
        handed_out = [] if self.snapshot_every_steps is None else self._snapshot()
        return [*handed_out, Announce("steps")]

    def _save(self) -> list[Effect]:
        self._save_due = False
        return [SaveState(self.state())]

    def _snapshot(self) -> list[Effect]:
        self._snapshot_due = False
        self.snapshot_version = self.version
        return [TakeSnapshot(self.version, self.steps + self.fusion.steps_elsewhere)]

    def _mark_snapshot(self, before: int) -> None:
        every = self.snapshot_every_steps
        if (
            every is not None
            and (before + self.fusion.steps_elsewhere) // every != (self.steps + self.fusion.steps_elsewhere) // every
        ):
            self._snapshot_due = True

    # Events

    def absorb(self, event: Event) -> list[Effect]:
        match event:
            case Begin():
                self.versions.publish(self.version, self.rounds)
                return [PublishWeights(self.version), *([] if self.snapshot_every_steps is None else self._snapshot())]
            case Arrived(chunks=chunks):
                self._arrived(chunks)
            case SaveAsked():
                self._save_due = True
            case ModelArrived(stamps=stamps):
                waited = self.fusion.awaits_mean
                if self.fusion.arrived(stamps):
                    self.fusion.adopt()
                    return self._answered(publish=waited)
            case WorkDone(result=UpdateDone() as done, took_ns=took_ns):
                return self._updated(done, took_ns)
            case WorkDone(result=Adopted()):
                self.version += 1
                return self._answered(publish=True)
        return []

    def _publish(self) -> list[Effect]:
        """Unless nobody will sample with these weights any more."""
        if self._exhausted():
            return []
        self.versions.publish(self.version, self.rounds, (chunk.version for chunk in self.pending))
        return [PublishWeights(self.version)]

    def _arrived(self, chunks: Sequence[ChunkHeader]) -> None:
        for chunk in chunks:
            self.balance.speeds.produced(chunk.producer, chunk.took_ns)
        # Before they are held to it: how long they took is a part of what the bound follows.
        self._follow_speeds()
        for chunk in chunks:
            if chunk.layout != self.layout:
                raise ProtocolError(f"chunk of producer {chunk.producer} has layout {chunk.layout}, not {self.layout}")
            known = self.sequences.lost, self.sequences.restarted
            lost = self.sequences.see(chunk.producer, chunk.sequence)
            self.credits.spend(chunk.slot.arena)
            if lost is not None and self._admit(chunk):
                self.pending.append(chunk)
                if not self.reuses:
                    self.balance.arrive(1)
                    self.balance.insert(chunk.count)
            else:
                self.balance.arrive(1)
                self.credits.reclaim(chunk.slot)
            if known != (self.sequences.lost, self.sequences.restarted):
                self._recount(chunk.slot.arena)

    def _admit(self, chunk: ChunkHeader) -> bool:
        """Whether the bound, which follows the producers' speeds, lets a chunk that arrived pass."""
        behind = self.rounds - self.versions.use(chunk.producer, chunk.version)
        return self.staleness.admit(Lag(self.version - chunk.version, behind), chunk.count)

    def _follow_speeds(self) -> None:
        if self.staleness.measured:
            self.staleness.narrow(self.balance.lag_rounds())

    def _recount(self, arena: int) -> None:
        """Chunks were lost with a process: its slots that are not in our hands are its successor's to write."""
        read = sum(chunk.slot.arena == arena for chunk in (*self.pending, *self._under_way))
        self.balance.recount(self.credits.recount(arena, read))

    def _updated(self, done: UpdateDone, took_ns: int) -> list[Effect]:
        for chunk in done.chunks:
            self.credits.reclaim(chunk.slot)
        self._under_way = ()
        if self._training:
            self.rounds += 1
            self.fusion.round_ended(self.balance.round_samples)
            self.balance.end_round(done.rows, took_ns)
            self._look_for_overtaken = True
        if not done.optimizer_steps:
            return []
        self.optimizer_steps += done.optimizer_steps
        self.version += done.optimizer_steps
        effects = self.fusion.push(self.steps)
        # Whoever waits comes first: actors get their weights before anything else is done.
        return effects if self.fusion.awaits_mean else [*effects, *self._publish()]

    def closing(self) -> list[Effect]:
        # However it ended: the last policy is handed out, and what is needed to go on is stored.
        last = [] if self.snapshot_every_steps is None or self.snapshot_version == self.version else self._snapshot()
        return [*last, *(self._save() if self.saves else [])]

    # What is stored

    def state(self) -> dict[str, Any]:
        """What a successor counts on from, as JSON can hold it."""
        return {
            **{name: getattr(self, name) for name in TOTALS},
            **{name: getattr(self.fusion, name) for name in FUSION_TOTALS},
            "balance": self.balance.state(),
            "staleness": self.staleness.state(),
        }

    def restore(self, state: Mapping[str, Any], *, replay_kept: bool) -> None:
        """Go on where another one was, before anything else happens; chunks that it had not trained on are lost."""
        for name in TOTALS:
            setattr(self, name, state[name])
        for name in FUSION_TOTALS:
            setattr(self.fusion, name, state[name])
        # Without a replay, what was taken in and not yet trained on was in slots, and is gone.
        self.balance.restore(state["balance"], kept=replay_kept and self.reuses)
        self.staleness.restore(state["staleness"])

    # Accounts

    def waiting_for(self) -> Waiting:
        if self.announced:
            return "stop"
        return "barrier" if self.fusion.awaits_mean else "samples"

    def histograms(self) -> Mapping[str, Mapping[int, int]]:
        return self.staleness.histograms()

    def counters(self) -> dict[str, float]:
        return {
            "steps": float(self.steps),
            "optimizer_steps": float(self.optimizer_steps),
            "samples_consumed_unique": float(self.steps),
            "chunks_lost": float(self.sequences.lost),
            "chunks_duplicated": float(self.sequences.duplicated),
            "producers_restarted": float(self.sequences.restarted),
            "means_adopted": float(self.fusion.adopted),
            **self.staleness.counters(),
            **self.balance.counters(),
        }
