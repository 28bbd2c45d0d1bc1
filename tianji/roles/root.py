"""Root: averages the models of the groups. It keeps each group's latest model, so that no group counts twice."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tianji.averaging import Stamp
from tianji.roles.role import Effect, Event, Lack, ModelArrived, PushModel, Role, Trigger, Work, WorkDone


@dataclass(frozen=True)
class Average:
    """Work: average the latest models of these groups, weighted by their samples."""

    groups: Sequence[int]
    samples: Sequence[int]


@dataclass(frozen=True)
class Averaged:
    """Result of `Average`: the mean is ready."""


@dataclass
class Root(Role):
    """State machine of the Root.

    Parameters
    ----------
    groups
        number of groups. The models of group g arrive on the port named g.
    barrier
        True averages when every group has pushed the same number of times (on-policy). False averages whenever a model
        arrives.
    """

    groups: int
    barrier: bool
    published: int = field(default=0, init=False)
    stale: bool = field(default=False, init=False)
    """Whether a model arrived that is not in a mean yet."""
    averaged: tuple[Stamp, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self.latest = [Stamp()] * self.groups
        self.answered = [0] * self.groups
        """Number of each group's latest push in the last mean that was sent to it."""
        self._pushes = Counter({0: self.groups})
        """How many groups have pushed so many times."""
        self._fewest = [(0, g) for g in range(self.groups)]
        """Heap of pushes and groups. Outdated entries are skipped."""
        super().__post_init__()

    def table(self) -> tuple[Trigger, ...]:
        return (Trigger("average", self._may_average, self._average),)

    def _may_average(self) -> bool:
        if self.working or self.stopping is not None or not self.stale:
            return False
        return not self.barrier or len(self._pushes) == 1

    def _average(self) -> list[Effect]:
        self.working, self.stale = True, False
        # Models that arrive from now on are for the next mean.
        self.averaged = tuple(self.latest)
        heard = [g for g, stamp in enumerate(self.averaged) if stamp.number]
        return [Work(Average(heard, [self.averaged[g].samples for g in heard]))]

    def absorb(self, event: Event) -> list[Effect]:
        match event:
            case ModelArrived(port=port, stamps=stamps):
                self._pushed(int(port), stamps[0])
            case WorkDone(result=Averaged()):
                self.published += 1
                steps = sum(stamp.steps for stamp in self.averaged)
                pushed = sum(1 for stamp in self.averaged if stamp.number)
                effects: list[Effect] = []
                for g, own in enumerate(self.averaged):
                    # A mean answers a push. A group that has not pushed since the last mean would ignore it.
                    if own.number > self.answered[g]:
                        self.answered[g] = own.number
                        others = Stamp(pushed - 1, 0, steps - own.steps)
                        effects.append(PushModel(self.published, (own, others), str(g)))
                return effects
        return []

    def _pushed(self, group: int, stamp: Stamp) -> None:
        before, self.latest[group] = self.latest[group].number, stamp
        self.stale = True
        self._pushes[before] -= 1
        if not self._pushes[before]:
            del self._pushes[before]
        self._pushes[stamp.number] += 1
        heapq.heappush(self._fewest, (stamp.number, group))

    def waiting_for(self) -> Lack:
        return "barrier" if self.barrier else "weights"

    def next_model(self) -> str | None:
        if not self.barrier or self.stopping is not None:
            return None
        # One port after the other: waking for each model would mean eight wake-ups for a mean of eight.
        while (entry := self._fewest[0])[0] != self.latest[entry[1]].number:
            heapq.heappop(self._fewest)
        return str(entry[1])

    def counters(self) -> dict[str, float]:
        return {"means_published": float(self.published)}
