"""Learner: receives experience, trains when the balance allows, publishes its weights, and hands out credit.

All algorithms use this state machine. PPO and IMPALA train on each chunk in its slot, in one round. DQN copies chunks into a
replay from which training draws. Runs also differ in the bound on staleness, and in whether they wait for a mean of groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any

from tianji.disciplines.credits import Credits
from tianji.disciplines.discipline import Discipline
from tianji.disciplines.sizes import Unpublished
from tianji.messages import ChunkHeader
from tianji.roles.fusion import Fusion, Membership
from tianji.roles.intake import Intake
from tianji.roles.role import (
    Announce,
    Arrived,
    Begin,
    Effect,
    Event,
    Lack,
    ModelArrived,
    PublishWeights,
    Release,
    Role,
    SaveAsked,
    SaveState,
    TakeSnapshot,
    Trigger,
    Work,
    WorkDone,
    milliseconds,
)
from tianji.roles.updating import Adopt, Adopted, Round, Update, UpdateDone

TOTALS = ("version", "steps", "optimizer_steps", "rounds")
FUSION_TOTALS = ("adopted", "steps_elsewhere")
"""Stored counts of the exchange with the Root, which a restarted learner continues."""


@dataclass
class Learner(Role):
    """State machine of one learner.

    Parameters
    ----------
    port
        port on which chunks arrive.
    layout
        id of the layout that every chunk must have.
    discipline
        decides what makes a round, when credit is given, which chunks are too old, and when weights are published.
    replays
        whether chunks go into a replay on arrival. If not, each is trained on in its slot, in one round.
    budget_steps
        budget of environment steps. No round begins that would exceed it. If groups do not wait for each other, the known
        steps of all groups count, so that a fast group does not idle at the end for a slow one.
    snapshot_every_steps
        a snapshot of the policy is taken before the first round, after the last, and whenever the steps of all groups have
        passed a multiple of this. None: never.
    membership
        place among the groups of a Root; None without a Root.
    saves
        whether its state is stored when it ends.
    """

    port: str
    layout: int
    discipline: Discipline
    replays: bool
    budget_steps: int
    snapshot_every_steps: int | None
    membership: Membership | None = None
    saves: bool = False
    version: int = field(default=0, init=False)
    """Number of changes of the weights: optimizer steps, and means adopted."""
    steps: int = field(default=0, init=False)
    """Environment steps received from this group's actors."""
    optimizer_steps: int = field(default=0, init=False)
    rounds: int = field(default=0, init=False)
    announced: bool = field(default=False, init=False)
    snapshot_version: int = field(default=-1, init=False)
    round_ms: Counter[int] = field(default_factory=Counter, init=False)
    """Number of rounds of updates that took so many milliseconds."""

    def __post_init__(self) -> None:
        self.balance = balance = self.discipline.balance()
        self.credits = Credits(balance.producers, balance.slots // balance.producers, balance.first_credit)
        self.intake = Intake(self.layout, self.discipline, balance, self.credits, self.replays)
        self.fusion = Fusion(self.membership)
        self._unpublished = False
        """Whether the weights changed since they were published."""
        self._since = Unpublished()
        """Work since they were published."""
        self._closed = False
        """Whether actors were told to hand over what they have under the published weights."""
        self._round = Round()
        self._look_for_overtaken = False
        """Whether rounds ended since waiting chunks were last checked for staleness."""
        self._save_due = False
        self._training = False
        self._snapshot_due = False
        self._multiples = 0
        """Multiples of `snapshot_every_steps` that were passed."""
        super().__post_init__()

    def table(self) -> tuple[Trigger, ...]:
        return (
            # Others wait for these, so they come first: the Root gets the model and actors get weights.
            Trigger("push", lambda: self.fusion.due, self._push),
            Trigger("admit", lambda: bool(self.intake.arrived), self._admit),
            Trigger("publish", self._may_publish, self._publish),
            Trigger("adopt", lambda: self._between_rounds() and self.fusion.mean_is_here, self._adopt),
            Trigger("finish", lambda: self._free() and not self.announced and self._exhausted(), self._finish),
            Trigger("credit", self._may_credit, self._credit),
            Trigger("save", lambda: self._between_rounds() and self._save_due, self._save),
            Trigger("snapshot", lambda: self._free() and self._snapshot_due, self._snapshot),
            Trigger("evict", lambda: not self.working and self._look_for_overtaken, self._evict),
            Trigger("close", lambda: self._free() and self._may_close(), self._close),
            Trigger("take in", lambda: self._free() and self.replays and self._may_take_in(), self._take_in),
            Trigger("update", lambda: self._free() and not self.replays and self._may_update(), self._update),
            # The last one: a learner that gets here has nothing to train on.
            Trigger("widen", lambda: self._free() and not self.announced and self._may_widen(), self._widen),
        )

    # Conditions

    def _stopped(self) -> bool:
        return self.stopping is not None or self.announced

    def _free(self) -> bool:
        barrier = self.fusion.awaits_mean and not self.fusion.mean_is_here
        return not self.working and self.stopping is None and not barrier

    def _between_rounds(self) -> bool:
        """No gradient is left half-way."""
        return self._free() and not self._round.chunks

    def _exhausted(self) -> bool:
        """Whether another round would exceed the budget, and all received samples were trained on."""
        over = self._spent() + self._next_samples() > self.budget_steps
        return over and (not self.replays or self.balance.mode == "off" or not self.balance.may_train())

    def _spent(self) -> int:
        """Environment steps that count towards the budget."""
        return self.steps + self.fusion.steps_elsewhere if self.fusion.shares_budget else self.steps

    def _next_samples(self) -> int:
        if self._closed:
            return self.intake.pending.samples
        if self.replays and not self.discipline.whole_rounds:
            return self.balance.chunk_samples
        return self.balance.round_samples - self._round.samples

    def _may_take_in(self) -> bool:
        return not self.announced and (self.balance.may_train() or bool(self._next_inserted()))

    def _next_inserted(self) -> Sequence[ChunkHeader]:
        """Chunks that go into the replay next: those that the budget has room for."""
        left = self.budget_steps - self._spent()
        if self.discipline.whole_rounds:
            chunks = in_order(self._next_chunks())
            return chunks if sum(chunk.count for chunk in chunks) <= left else ()
        ends = accumulate(chunk.count for chunk in self.intake.pending)
        return self.intake.pending[: sum(1 for _ in takewhile(lambda end: end <= left, ends))]

    def _may_update(self) -> bool:
        # Weights that may go out do so first: their trigger comes before this one's.
        return not self.announced and bool(self._next_chunks())

    def _next_chunks(self) -> Sequence[ChunkHeader]:
        return self.discipline.next_round(self.intake.pending, self._round.producers)

    def _may_close(self) -> bool:
        return not self._closed and not self._unpublished and not self.announced and self.discipline.closes(self.intake.pending)

    def _may_publish(self) -> bool:
        """Whether there are new weights that actors will use, and nothing has to be waited for first."""
        if self.working or not self._unpublished or self.fusion.awaits_mean or self._exhausted():
            return False
        return self.discipline.may_publish(self.intake.pending, self._since)

    def _may_credit(self) -> bool:
        if not self.credits.idle or self._stopped() or not self.balance.may_grant():
            return False
        return self.balance.most_each is None or self.credits.someone_waits(self.balance.most_each)

    def _may_widen(self) -> bool:
        """Whether credit is withheld although this learner lacks samples."""
        return self.credits.idle > 0 and self.balance.may_widen(idle_actor=self.credits.someone_waits())

    # Calls

    def _evict(self) -> list[Effect]:
        self._look_for_overtaken = False
        self.intake.evict(self.rounds)
        return []

    def _take_in(self) -> list[Effect]:
        """With a replay: insert chunks that arrived, and train for a round if one may begin."""
        before, chunks = self.steps, self._next_inserted()
        self._take(chunks)
        return self._begin(Update(chunks, before + self.fusion.steps_elsewhere, train=self.balance.may_train()))

    def _update(self) -> list[Effect]:
        """Without a replay: train for a round, or a part of one, on the chunks that arrived first."""
        before, chunks = self.steps, in_order(self._next_chunks())
        self._take(chunks)
        stale = any(chunk.version < self.version for chunk in chunks)
        steps = before - self._round.samples + self.fusion.steps_elsewhere
        self._round.add(chunks)
        if not self.discipline.accumulates:
            return self._begin(Update(chunks, steps, stale=stale))
        last = self._round.chunks == self.balance.round_chunks
        share = sum(chunk.count for chunk in chunks) / self.balance.round_samples
        return self._begin(Update(chunks, steps, last, stale, share))

    def _take(self, chunks: Sequence[ChunkHeader]) -> None:
        self.intake.take(chunks, self.version, self.rounds)
        self.steps += sum(chunk.count for chunk in chunks)
        self._mark_snapshot()

    def _begin(self, update: Update) -> list[Effect]:
        self.working = True
        self._training = update.train
        if update.train:
            self.balance.begin_round(None if self.replays else self._round.samples)
        return [Work(update)]

    def _credit(self) -> list[Effect]:
        """Return as many slots as allowed, first to the actors that have the least credit."""
        granted = []
        while self._may_credit():
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

    def _push(self) -> list[Effect]:
        return [self.fusion.push(self.steps)]

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

    def _mark_snapshot(self) -> None:
        """See whether steps, here or in other groups, have passed a multiple at which a snapshot is due."""
        if self.snapshot_every_steps is None or self.announced:
            return
        passed = (self.steps + self.fusion.steps_elsewhere) // self.snapshot_every_steps
        self._snapshot_due = self._snapshot_due or passed > self._multiples
        self._multiples = passed

    # Events

    def absorb(self, event: Event) -> list[Effect]:
        match event:
            case Begin():
                self.intake.publish(self.version, self.rounds)
                return [PublishWeights(self.version), *([] if self.snapshot_every_steps is None else self._snapshot())]
            case Arrived(chunks=chunks):
                self.intake.arrived.extend(chunks)
            case SaveAsked():
                self._save_due = True
            case ModelArrived(stamps=stamps):
                self.fusion.arrived(stamps)
                self._mark_snapshot()
            case WorkDone(result=UpdateDone() as done, took_ns=took_ns):
                self._updated(done, took_ns)
            case WorkDone(result=Adopted()):
                self.version += 1
                self._unpublished = True
                self.fusion.answered()
        return []

    def _close(self) -> list[Effect]:
        self._closed = True
        return [PublishWeights(self.version, closing=True)]

    def _publish(self) -> list[Effect]:
        self._unpublished = self._closed = False
        self._since = Unpublished()
        self.intake.publish(self.version, self.rounds)
        return [PublishWeights(self.version)]

    def _admit(self) -> list[Effect]:
        self.intake.admit(self.version, self.rounds)
        return []

    def _updated(self, done: UpdateDone, took_ns: int) -> None:
        self.intake.give_back(done.chunks)
        now = self._round
        now.rows, now.took_ns = now.rows + done.rows, now.took_ns + took_ns
        if self._training:
            self.rounds += 1
            self.fusion.round_ended(now.samples or self.balance.round_samples)
            self.balance.end_round(now.rows, now.took_ns)
            self.round_ms[milliseconds(now.took_ns)] += 1
            self._look_for_overtaken = True
        if self._training or self.replays:
            self._round = Round()
        since = self._since
        self._since = Unpublished(since.updates + done.optimizer_steps, since.worked_ns + took_ns)
        self.optimizer_steps += done.optimizer_steps
        self.version += done.optimizer_steps
        self._unpublished = self._unpublished or done.optimizer_steps > 0

    def closing(self) -> list[Effect]:
        # Of a round that is not complete, no optimizer step was made: its samples were not trained on.
        self.steps -= self._round.samples
        self._round = Round()
        # At any end, the last policy is handed out and the state is stored.
        last = [] if self.snapshot_every_steps is None or self.snapshot_version == self.version else self._snapshot()
        return [*last, *(self._save() if self.saves else [])]

    # What is stored

    def state(self) -> dict[str, Any]:
        """Counts as plain data, which a restarted learner continues."""
        return {
            **{name: getattr(self, name) for name in TOTALS},
            **{name: getattr(self.fusion, name) for name in FUSION_TOTALS},
            "balance": self.balance.state(),
            "staleness": self.intake.staleness.state(),
        }

    def restore(self, state: Mapping[str, Any], *, replay_kept: bool) -> None:
        """Continue from the state of another learner. Call it first. Chunks that were not trained on are lost."""
        for name in TOTALS:
            setattr(self, name, state[name])
        for name in FUSION_TOTALS:
            setattr(self.fusion, name, state[name])
        self._mark_snapshot()
        self._snapshot_due = False
        # Without a replay, samples that were not trained on yet were in slots and are lost.
        self.balance.restore(state["balance"], kept=replay_kept and self.replays)
        self.intake.staleness.restore(state["staleness"])

    # Accounts

    def waiting_for(self) -> Lack:
        if self.announced:
            return "stop"
        return "barrier" if self.fusion.awaits_mean else "samples"

    def histograms(self) -> Mapping[str, Mapping[int, int]]:
        return {**self.intake.staleness.histograms(), "round_ms": self.round_ms}

    def counters(self) -> dict[str, float]:
        return {
            "steps": float(self.steps),
            "optimizer_steps": float(self.optimizer_steps),
            "samples_consumed_unique": float(self.steps),
            "means_adopted": float(self.fusion.adopted),
            **self.intake.counters(),
            **self.balance.counters(),
        }


def in_order(chunks: Sequence[ChunkHeader]) -> list[ChunkHeader]:
    """Chunks by producer, because order of arrival is random. So sums over a batch are the same in every run."""
    return sorted(chunks, key=lambda chunk: (chunk.producer, chunk.sequence))
