"""Contract of a role: it takes events and returns effects. Its trigger table lists which condition starts which action.

A role never opens a socket, sleeps, reads a clock or computes anything costly. A world performs its effects and reports their
completion as events. So the same code runs in real processes and in a test's for loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tianji.averaging import Stamps
from tianji.messages import ChunkHeader, SlotRef

PUBLICATIONS = 1 << 20
"""Numbers of publications of weights count from 0 to this, and then from 0 again."""
MOST_FIRINGS = 10_000
"""Most times that triggers may fire one after the other without a new event."""

# Events: messages from a world to a role.


@dataclass(frozen=True)
class Begin:
    """All roles are connected."""


@dataclass(frozen=True)
class Arrived:
    """Chunks arrived on a port, oldest first. The role owns their slots until it sends or releases them."""

    port: str
    chunks: Sequence[ChunkHeader]


@dataclass(frozen=True)
class Credited:
    """Credit: slots of an outgoing port came back to the sender."""

    port: str
    slots: Sequence[SlotRef]


@dataclass(frozen=True)
class WeightsArrived:
    """Weights of this version arrived. They replace earlier ones that were not used.

    `closing` says that the learner has enough samples of this version: what is under way is handed over.
    """

    version: int
    closing: bool = False
    number: int = 0
    """Number of this publication, modulo `PUBLICATIONS`. A gap shows publications that this reader missed."""


@dataclass(frozen=True)
class WorkDone:
    """The work that the role started is finished, with its duration in nanoseconds."""

    result: Any
    took_ns: int = 0


@dataclass(frozen=True)
class WeightsWait:
    """Newer weights arrived than those with which the current work began."""


@dataclass(frozen=True)
class ModelArrived:
    """A model arrived in the worker's inbox of this port: a learner's model at the Root, or the Root's mean at a learner."""

    port: str
    stamps: Stamps
    """Contribution to the model of the group that sends or receives it, and of all others together."""


@dataclass(frozen=True)
class StopAsked:
    """Request to finish the current work and end."""

    reason: str


@dataclass(frozen=True)
class SessionLost:
    """The process at the far end of an outgoing port ended. Chunks that were sent to it may be lost."""

    port: str


@dataclass(frozen=True)
class SaveAsked:
    """Request to store the state as soon as it is complete."""


Event = (
    SaveAsked | SessionLost | Begin | Arrived | Credited | WeightsArrived | WeightsWait | ModelArrived | WorkDone | StopAsked
)

# Effects: requests of a role to its world.


@dataclass(frozen=True)
class Send:
    """Send chunks on a port, and hand over their slots."""

    port: str
    chunks: Sequence[ChunkHeader]


@dataclass(frozen=True)
class Release:
    """Return slots to their senders on a port."""

    port: str
    slots: Sequence[SlotRef]


@dataclass(frozen=True)
class Work:
    """Run the role's worker on this argument. `WorkDone` follows."""

    argument: Any


@dataclass(frozen=True)
class Cut:
    """End the current work early, with a partial result."""


@dataclass(frozen=True)
class Renew:
    """Continue the current work with the newer weights."""


@dataclass(frozen=True)
class PublishWeights:
    """Publish the worker's weights as the latest, under this version; once more if the round of this version closes."""

    version: int
    closing: bool = False


@dataclass(frozen=True)
class PushModel:
    """Send the worker's model under this number, from a learner to the Root or back."""

    number: int
    stamps: Stamps
    port: str


@dataclass(frozen=True)
class TakeSnapshot:
    """Send a snapshot of the policy to the launcher, with its step and version."""

    version: int
    steps: int


@dataclass(frozen=True)
class SaveState:
    """Store the worker's state together with these values of the role."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Announce:
    """Report that the role has used up its budget. The launcher decides what follows."""

    reason: str


@dataclass(frozen=True)
class End:
    """Send the final report and end."""


def milliseconds(ns: int) -> int:
    """Nanoseconds in whole milliseconds, for distributions of durations."""
    return (ns + 500_000) // 1_000_000


Effect = Send | Release | Work | Cut | Renew | PublishWeights | PushModel | TakeSnapshot | SaveState | Announce | End

Lack = Literal["samples", "weights", "credit", "barrier", "stop"]


@dataclass(frozen=True)
class Trigger:
    """A condition and the action that it starts. `call` must make `condition` false."""

    name: str
    condition: Callable[[], bool]
    call: Callable[[], list[Effect]]


@dataclass
class Role(ABC):
    """A state machine with a trigger table.

    `handle` passes each event to `absorb`, which updates the state. Then it fires triggers, in the order of the table, until
    no condition holds. It raises RuntimeError if that never happens.
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
        """Update the state by an event, and return the effects that follow unconditionally."""

    @abstractmethod
    def waiting_for(self) -> Lack:
        """What an idle role is waiting for, for the account of time."""

    def next_model(self) -> str | None:
        """Port whose model an idle role needs before it can continue. None: any arrival is useful."""
        return None

    def counters(self) -> dict[str, float]:
        """Totals for the role's report."""
        return {}

    def histograms(self) -> Mapping[str, Mapping[int, int]]:
        """Distributions for the role's report."""
        return {}

    def closing(self) -> list[Effect]:
        """Last effects of the role when it ends."""
        return []

    def handle(self, *events: Event) -> list[Effect]:
        """Handle the events since the last call, in order, and return the effects."""
        effects: list[Effect] = []
        if self.ended:
            return effects
        for event in events:
            if isinstance(event, StopAsked):
                self.stopping = event.reason
            if isinstance(event, WorkDone):
                self.working = False
            effects += self.absorb(event)
        firings, fired = 0, True
        while fired and not self.ended:
            fired = False
            for trigger in self.triggers:
                if trigger.condition():
                    effects += trigger.call()
                    fired, firings = True, firings + 1
                    if firings > MOST_FIRINGS:
                        raise RuntimeError(
                            f"{self.name}: triggers fired {firings:,} times without a new event; the condition of "
                            f"{trigger.name!r} stays true after its call"
                        )
        return effects

    def _end(self) -> list[Effect]:
        self.ended = True
        return [*self.closing(), End()]
