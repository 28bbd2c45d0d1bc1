"""Root: averages models of groups. It keeps the latest model of each child, so that no group counts twice.

Children are learners, or Roots that average for their own children. An inner Root passes one model on to the Root above it, and
the mean that comes back goes to its children.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tianji.averaging import Stamp, Stamps
from tianji.roles.fusion import ROOT
from tianji.roles.role import Effect, Event, Lack, ModelArrived, PushModel, Role, Trigger, Work, WorkDone


@dataclass(frozen=True)
class Average:
    """Work: average the latest models of these ports, weighted by their samples."""

    ports: Sequence[str]
    samples: Sequence[int]


@dataclass(frozen=True)
class Averaged:
    """Result of `Average`: the mean is ready."""


@dataclass
class Root(Role):
    """State machine of a Root.

    Parameters
    ----------
    children
        number of learners or Roots whose models it averages. Those of child n arrive on the port named n.
    barrier
        True averages when every child has pushed the same number of times (on-policy). False averages whenever a model
        arrives.
    inner
        whether there is a Root above it, on the port `ROOT`. One push to it is under way at a time.
    """

    children: int
    barrier: bool
    inner: bool = False
    published: int = field(default=0, init=False)
    """Number of means that were handed to children."""
    pushed: int = field(default=0, init=False)
    """Number of means that were pushed to the Root above."""
    stale: bool = field(default=False, init=False)
    """Whether a model arrived that is not in a mean yet."""
    averaged: tuple[Stamps, ...] = field(default=(), init=False)
    """What the children had pushed for the last mean of their models."""

    def __post_init__(self) -> None:
        self.latest: list[Stamps] = [(Stamp(), Stamp())] * self.children
        self.answered = [0] * self.children
        """Number of each child's latest push in the last mean that was sent to it."""
        self._pushes = Counter({0: self.children})
        """How many children have pushed so many times."""
        self._fewest = [(0, n) for n in range(self.children)]
        """Heap of pushes and children. Outdated entries are skipped."""
        self._owed = False
        """Whether the mean for our push to the Root above was not handed to the children yet."""
        self._beyond: Stamp | None = None
        """Groups that are not under this Root, as the mean that came from above contains them."""
        super().__post_init__()

    def table(self) -> tuple[Trigger, ...]:
        return (
            Trigger("take over", lambda: self._free() and self._beyond is not None, self._take_over),
            Trigger("average", self._may_average, self._average),
        )

    def _free(self) -> bool:
        return not self.working and self.stopping is None

    def _may_average(self) -> bool:
        if not self._free() or not self.stale or self._owed:
            return False
        return not self.barrier or len(self._pushes) == 1

    def _average(self) -> list[Effect]:
        self.working, self.stale, self._owed = True, False, self.inner
        # Models that arrive from now on are for the next mean.
        self.averaged = tuple(self.latest)
        heard = [(n, own.samples) for n, (own, _) in enumerate(self.averaged) if own.number]
        return [Work(Average([str(n) for n, _ in heard], [samples for _, samples in heard]))]

    def _take_over(self) -> list[Effect]:
        self.working = True
        # The mean of one model is that model to the bit.
        return [Work(Average([ROOT], [1]))]

    def absorb(self, event: Event) -> list[Effect]:
        match event:
            case ModelArrived(port=port, stamps=(_, beyond)) if port == ROOT:
                self._beyond = beyond
            case ModelArrived(port=port, stamps=stamps):
                self._arrived(int(port), stamps)
            case WorkDone(result=Averaged()) if self.inner and self._beyond is None:
                return self._push()
            case WorkDone(result=Averaged()):
                beyond, self._beyond, self._owed = self._beyond or Stamp(), None, False
                return self._hand_down(beyond)
        return []

    def _arrived(self, child: int, stamps: Stamps) -> None:
        (before, _), self.latest[child] = self.latest[child], stamps
        number = stamps[0].number
        self.stale = True
        self._pushes[before.number] -= 1
        if not self._pushes[before.number]:
            del self._pushes[before.number]
        self._pushes[number] += 1
        heapq.heappush(self._fewest, (number, child))

    def _push(self) -> list[Effect]:
        """Pass the mean of the children on to the Root above, as one model with the samples behind all of them."""
        self.pushed += 1
        samples = sum(own.samples for own, _ in self.averaged)
        whole = self._whole()
        return [PushModel(self.pushed, (Stamp(self.pushed, samples, whole.steps), Stamp(whole.number - 1)), ROOT)]

    def _hand_down(self, beyond: Stamp) -> list[Effect]:
        """Answer the children's pushes with the mean.

        Parameters
        ----------
        beyond
            groups in it that are not under this Root.
        """
        self.published += 1
        whole = self._whole()
        effects: list[Effect] = []
        for n, (own, more) in enumerate(self.averaged):
            # A mean answers a push. A child that has not pushed since the last mean would ignore it.
            if own.number > self.answered[n]:
                self.answered[n] = own.number
                others = Stamp(beyond.number + whole.number - 1 - more.number, 0, beyond.steps + whole.steps - own.steps)
                effects.append(PushModel(self.published, (own, others), str(n)))
        return effects

    def _whole(self) -> Stamp:
        """Number of groups in the last mean of the children, and their steps."""
        groups = sum(1 + more.number for own, more in self.averaged if own.number)
        return Stamp(groups, 0, sum(own.steps for own, _ in self.averaged))

    def waiting_for(self) -> Lack:
        return "barrier" if self.barrier else "weights"

    def next_model(self) -> str | None:
        if not self.barrier or self.stopping is not None:
            return None
        if self._owed:
            return ROOT
        # One port after the other: waking for each model would mean eight wake-ups for a mean of eight.
        while (entry := self._fewest[0])[0] != self.latest[entry[1]][0].number:
            heapq.heappop(self._fewest)
        return str(entry[1])

    def counters(self) -> dict[str, float]:
        return {"means_published": float(self.published)}
