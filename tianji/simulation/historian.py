"""Records when roles began work, so that the laws of their discipline can be checked."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from tianji.disciplines.laws import Began, History, Published, Took, Used
from tianji.disciplines.sizes import Unpublished
from tianji.roles.actor import Rollout
from tianji.roles.role import (
    PUBLICATIONS,
    Announce,
    Arrived,
    Effect,
    Event,
    PublishWeights,
    Release,
    Send,
    SessionLost,
    WeightsArrived,
    Work,
    WorkDone,
)
from tianji.roles.updating import Update, UpdateDone


class Historian:
    """Trace (`tianji.worlds.host.Trace`) that records the history of roles."""

    def __init__(self) -> None:
        self.history = History()
        self._begun: Counter[str] = Counter()
        self._heard: Counter[str] = Counter()
        self._handed: Counter[str] = Counter()
        self._latest: dict[str, int] = {}
        """Number of the publication of each actor's weights."""
        self._made: Counter[str] = Counter()
        """Fragments that each actor began in all."""
        self._done: Counter[str] = Counter()
        """Chunks of the rounds that each learner has ended."""
        self._rounds: Counter[str] = Counter()
        """Number of rounds begun, by learner."""
        self._ended: Counter[str] = Counter()
        self._trains: dict[str, bool] = {}
        """Whether the current work of each learner is a round."""
        self._over: set[str] = set()
        """Learners that have used up their budget and grant no more credit."""
        self._kept: Counter[tuple[str, int]] = Counter()
        """By learner and actor, chunks that the learner holds."""
        self._since: dict[str, Unpublished] = {}
        """Each learner's work since it published its weights."""
        self._published: dict[str, list[tuple[int, int]]] = {}
        """Published versions of each learner, with the number of rounds completed by then."""

    def __call__(self, role: str, events: Sequence[Event], effects: Sequence[Effect]) -> None:
        for event in events:
            match event:
                case WeightsArrived(number=number):
                    # A version comes twice if its round closes, and those in between count if it missed them.
                    self._heard[role] += (number - self._latest.get(role, number - 1)) % PUBLICATIONS
                    self._latest[role] = number
                case Arrived(chunks=chunks):
                    self._kept.update((role, chunk.slot.arena) for chunk in chunks)
                case SessionLost():
                    self._begun[role], self._heard[role], self._handed[role] = 0, min(1, self._heard[role]), 0
                case WorkDone(result=UpdateDone(chunks=chunks, optimizer_steps=updates), took_ns=took_ns):
                    since = self._since[role]
                    self._since[role] = Unpublished(since.updates + updates, since.worked_ns + took_ns)
                    self._ended[role] += self._trains[role]
                    self._done[role] += len(chunks)
        for effect in effects:
            match effect:
                case Send(chunks=chunks):
                    self._handed[role] += sum(chunk.last for chunk in chunks)
                case PublishWeights(version=version, closing=False):
                    if role in self._published:
                        self.history.published.append(Published(role, self._since[role]))
                    self._since[role] = Unpublished()
                    self._published.setdefault(role, []).append((version, self._ended[role]))
                case Release(slots=slots):
                    self._kept.subtract((role, slot.arena) for slot in slots)
                case Work(argument=Rollout()):
                    self._made[role] += 1
                    begun, heard = self._begun[role], self._heard[role]
                    self.history.began.append(Began(role, begun, heard, self._in_flight(role), self._handed[role]))
                    self._begun[role] += 1
                case Work(argument=Update() as update):
                    self._took(role, update)
                case Announce():
                    self._over.add(role)
        if role.startswith("learner") and role not in self._over:
            self._keeps(role)

    def _keeps(self, learner: str) -> None:
        most = max((count for (name, _), count in self._kept.items() if name == learner), default=0)
        self.history.held[learner] = max(most, self.history.held.get(learner, 0))

    def _in_flight(self, actor: str) -> int:
        """Fragments of an actor's group that had begun and are in no round that has ended."""
        group = actor.partition(".")[0].rpartition(" ")[2]
        made = sum(count for name, count in self._made.items() if name.startswith(f"actor {group}."))
        return made - self._done[f"learner {group}"]

    def _took(self, learner: str, update: Update) -> None:
        published, now = self._published[learner], self._ended[learner]
        versions = [version for version, _ in published]
        chunks = tuple(
            Used(c.producer, c.sequence, now - published[bisect_right(versions, c.version) - 1][1], c.last)
            for c in update.chunks
        )
        self.history.took.append(Took(learner, self._rounds[learner], chunks, self._since[learner]))
        self._rounds[learner] += update.train
        self._trains[learner] = update.train
