"""The contract of a role: it is handed events and hands back effects; a table of triggers says what starts what.

A role never opens a socket, sleeps, reads a clock or computes anything costly. A world performs its effects and
reports their completion as further events, so the same code runs in real processes and in a test's for loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tianji.averaging import Stamp
from tianji.messages import ChunkHeader, SlotRef

# Events: what a world tells a role.


@dataclass(frozen=True)
class Begin:
    """Everybody is connected."""


@dataclass(frozen=True)
class Arrived:
    """Chunks came in on a port, oldest first; the role owns their slots until it sends or releases them."""

    port: str
    chunks: Sequence[ChunkHeader]


@dataclass(frozen=True)
class Credited:
    """Slots on an outgoing port are the sender's again."""

    port: str
    slots: Sequence[SlotRef]


@dataclass(frozen=True)
class WeightsArrived:
    """Weights of this version are at hand; earlier ones that were not looked at are gone."""

    version: int


@dataclass(frozen=True)
class WorkDone:
    """The work that the role started is finished, and took so many nanoseconds."""

    result: Any
    took_ns: int = 0


@dataclass(frozen=True)
class ModelArrived:
    """A model lies in the worker's inbox of this port: a learner's at the Root, the Root's mean at a learner."""

    port: str
    stamps: Sequence[Stamp]
    """What is in it of each group, by the group's number."""


@dataclass(frozen=True)
class StopAsked:
    """Finish what is running and end."""

    reason: str


@dataclass(frozen=True)
class SessionLost:
    """Whoever is at the far end of an outgoing port ended: what was sent to it may be lost."""

    port: str


@dataclass(frozen=True)
class SaveAsked:
    """Store your state as soon as it is whole."""


Event = SaveAsked | SessionLost | Begin | Arrived | Credited | WeightsArrived | ModelArrived | WorkDone | StopAsked

# Effects: what a role asks of its world.


@dataclass(frozen=True)
class Send:
    """Send chunks on a port; their slots go with them."""

    port: str
    chunks: Sequence[ChunkHeader]


@dataclass(frozen=True)
class Release:
    """Give slots back to whoever sent them on a port."""

    port: str
    slots: Sequence[SlotRef]


@dataclass(frozen=True)
class Work:
    """Run the role's worker on this; `WorkDone` follows."""

    argument: Any


@dataclass(frozen=True)
class PublishWeights:
    """Make the worker's weights the latest, under this version."""

    version: int


@dataclass(frozen=True)
class PushModel:
    """Send the worker's model to whoever averages models, or has them averaged, under this number."""

    number: int
    stamps: Sequence[Stamp]
    ports: Sequence[str]


@dataclass(frozen=True)
class TakeSnapshot:
    """Hand the policy to the launcher, stamped."""

    version: int
    steps: int


@dataclass(frozen=True)
class SaveState:
    """Store the worker's state, and beside it these values of the role's own."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Announce:
    """The role has done all that it was asked to do; the launcher decides what follows."""

    reason: str


@dataclass(frozen=True)
class End:
    """Nothing will follow: account for yourself and leave."""


Effect = Send | Release | Work | PublishWeights | PushModel | TakeSnapshot | SaveState | Announce | End

Waiting = Literal["samples", "weights", "credit", "barrier", "stop"]


@dataclass(frozen=True)
class Trigger:
    """When `condition` holds, `call` acts; it must make its own condition false."""

    name: str
    condition: Callable[[], bool]
    call: Callable[[], list[Effect]]


@dataclass
class Role(ABC):
    """A state machine with a trigger table.

    `handle` lets `absorb` take what happened into the state, then fires triggers, in the order of the table, until no
    condition holds.
    """

    name: str
    working: bool = field(default=False, init=False)
    stopping: str | None = field(default=None, init=False)
    ended: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        ending = Trigger("end", lambda: self.stopping is not None and not self.working and not self.ended, self._end)
        self.triggers: tuple[Trigger, ...] = (*self.table(), ending)

    @abstractmethod
    def table(self) -> tuple[Trigger, ...]:
        """This role's triggers."""

    @abstractmethod
    def absorb(self, event: Event) -> list[Effect]:
        """Take an event into the state; return what follows from it unconditionally."""

    @abstractmethod
    def waiting_for(self) -> Waiting:
        """What an idle role lacks, for the account of time."""

    def next_model(self) -> str | None:
        """The port whose model an idle role needs before it can do anything; None: whatever comes at any end is of use."""
        return None

    def counters(self) -> dict[str, float]:
        """Totals for the role's report."""
        return {}

    def histograms(self) -> Mapping[str, Mapping[int, int]]:
        """Distributions for the role's report."""
        return {}

    def closing(self) -> list[Effect]:
        """What the role still owes when it ends."""
        return []

    def handle(self, *events: Event) -> list[Effect]:
        """Advance by what has happened since the last call, in order."""
        effects: list[Effect] = []
        if self.ended:
            return effects
        for event in events:
            if isinstance(event, StopAsked):
                self.stopping = event.reason
            if isinstance(event, WorkDone):
                self.working = False
            effects += self.absorb(event)
        fired = True
        while fired and not self.ended:
            fired = False
            for trigger in self.triggers:
                if trigger.condition():
                    effects += trigger.call()
                    fired = True
        return effects

    def _end(self) -> list[Effect]:
        self.ended = True
        return [*self.closing(), End()]
