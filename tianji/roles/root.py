"""Root: averages the groups' models. It keeps the latest of each group, so that a fast group is never counted twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tianji.averaging import Stamp
from tianji.roles.role import Effect, Event, ModelArrived, PushModel, Role, Trigger, Waiting, Work, WorkDone


@dataclass(frozen=True)
class Average:
    """Work: average the latest models of these groups, by the samples behind them."""

    groups: Sequence[int]
    samples: Sequence[int]


@dataclass(frozen=True)
class Averaged:
    """The mean is ready."""


@dataclass
class Root(Role):
    """State of the Root.

    Parameters
    ----------
    groups
        how many there are; group g's models arrive on the port named g.
    waits
        True averages when every group has pushed the same number (on-policy); False whenever a model arrives.
    """

    groups: int
    waits: bool
    published: int = field(default=0, init=False)
    stale: bool = field(default=False, init=False)
    """A model has come that no mean has in it yet."""
    averaged: tuple[Stamp, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self.latest = [Stamp()] * self.groups
        self.answered = [0] * self.groups
        """Of each group the number of the push that the last mean which it was sent has in it."""
        super().__post_init__()

    def table(self) -> tuple[Trigger, ...]:
        return (Trigger("average", self._may_average, self._average),)

    def _may_average(self) -> bool:
        if self.working or self.stopping is not None or not self.stale:
            return False
        return not self.waits or len({stamp.number for stamp in self.latest}) == 1

    def _average(self) -> list[Effect]:
        self.working, self.stale = True, False
        # Models that come from now on are for the next mean.
        self.averaged = tuple(self.latest)
        heard = [g for g, stamp in enumerate(self.averaged) if stamp.number]
        return [Work(Average(heard, [self.averaged[g].samples for g in heard]))]

    def absorb(self, event: Event) -> list[Effect]:
        match event:
            case ModelArrived(port=port, stamps=stamps):
                self.latest[int(port)] = stamps[int(port)]
                self.stale = True
            case WorkDone(result=Averaged()):
                self.published += 1
                # A mean answers a push: who has not pushed since the last one waits for none, and would pass it over.
                asking = [g for g, stamp in enumerate(self.averaged) if stamp.number > self.answered[g]]
                for g in asking:
                    self.answered[g] = self.averaged[g].number
                return [PushModel(self.published, self.averaged, [str(g) for g in asking])]
        return []

    def waiting_for(self) -> Waiting:
        return "barrier" if self.waits else "weights"

    def next_model(self) -> str | None:
        if not self.waits or self.stopping is not None:
            return None
        # One after the other: a Root that woke for each would do so eight times for a mean of eight, and mostly for nothing.
        fewest = min(range(self.groups), key=lambda g: self.latest[g].number)
        return str(fewest)

    def counters(self) -> dict[str, float]:
        return {"means_published": float(self.published)}
