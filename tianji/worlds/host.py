"""A host joins one role to its channels and its worker: it turns what came in into events and effects into deeds.

Both worlds use it; they differ in what they do between two pumps (wait in a poller, or pump the next host).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from tianji.channel.base import COALESCE_NS, Endpoint, Inlet, Outlet, WeightsInlet, WeightsOutlet
from tianji.messages import Done, Episodes, Snapshot, Started
from tianji.roles.role import (
    Announce,
    Arrived,
    Begin,
    Credited,
    Effect,
    End,
    Event,
    PublishWeights,
    Release,
    Role,
    Send,
    StopAsked,
    TakeSnapshot,
    WeightsArrived,
    Work,
    WorkDone,
)
from tianji.telemetry import Clock, Sink
from tianji.worlds.sampler import Sampler
from tianji.worlds.workers import Worker


@dataclass
class Host:
    """One role, plugged in."""

    role: Role
    worker: Worker
    tell: Sink
    clock: Clock
    inlets: dict[str, Inlet] = field(default_factory=dict)
    outlets: dict[str, Outlet] = field(default_factory=dict)
    weights_in: WeightsInlet | None = None
    weights_out: WeightsOutlet | None = None

    def __post_init__(self) -> None:
        self.account = self.worker.account
        self._started = False
        self._work_ns = COALESCE_NS + 1
        """How long the last piece of work took; the first is taken for a long one."""
        self._begun = False
        self._early: list[Event] = []

    @property
    def endpoints(self) -> list[Endpoint]:
        """Everything that a poller should watch."""
        ends: list[Endpoint] = [*self.inlets.values(), *self.outlets.values()]
        return ends + [end for end in (self.weights_in, self.weights_out) if end is not None]

    @property
    def ended(self) -> bool:
        return self.role.ended

    def begin(self) -> None:
        """Everybody is connected: let the role act."""
        self._begun = True
        self._drive(Begin())
        early, self._early = self._early, []
        for event in early:
            self._drive(event)

    def stop(self, reason: str) -> None:
        """Ask the role to end."""
        self._drive(StopAsked(reason))

    def pump(self) -> bool:
        """Hand the role all that has come in; say whether there was anything."""
        events = self._take_in()
        if not self._begun:
            # Others have begun before. What they send is kept, or a poller would call for it again and again.
            self._early += events
            return False
        for event in events:
            self._drive(event)
        return bool(events)

    def _take_in(self) -> list[Event]:
        """Everything that has come, as events."""
        events: list[Event] = []
        if self.weights_out is not None:
            self.weights_out.serve()
        for port, outlet in self.outlets.items():
            if slots := outlet.credits():
                events.append(Credited(port, slots))
        for port, inlet in self.inlets.items():
            if chunks := inlet.receive():
                events.append(Arrived(port, chunks))
        if self.weights_in is not None:
            version = self.weights_in.latest(self.worker.weights())
            if version is not None:
                # A learner publishes before it gives credit. So weights are looked for after credit, and the role hears
                # of them first: whoever was waiting for credit goes on with the weights that came with it.
                events.insert(0, WeightsArrived(version))
        return events

    def _drive(self, event: Event) -> None:
        """Handle an event and all that follows from it at once."""
        effects = deque(self.role.handle(event))
        while effects:
            done = self._perform(effects.popleft())
            if done is not None:
                effects.extend(self.role.handle(done))

    def _perform(self, effect: Effect) -> Event | None:
        match effect:
            case Work(argument=argument):
                if not self._started:
                    self._started = True
                    self.tell(Started(self.role.name, self.clock()))
                start = self.clock()
                if self._work_ns > COALESCE_NS:
                    # Peers would wait for what was kept back until this is done.
                    for end in self.endpoints:
                        end.flush()
                result = self.worker.run(argument)
                self._work_ns = self.clock() - start
                return WorkDone(result)
            case Send(port=port, chunks=chunks):
                start = self.clock()
                self.outlets[port].send(chunks)
                self.account.busy_ns["send"] += self.clock() - start
                self._tell_episodes()
            case Release(port=port, slots=slots):
                self.inlets[port].release(slots)
            case PublishWeights(version=version):
                assert self.weights_out is not None
                start = self.clock()
                self.weights_out.publish(version, self.worker.weights())
                self.account.busy_ns["send"] += self.clock() - start
            case TakeSnapshot(version=version, steps=steps):
                flat = np.ascontiguousarray(self.worker.weights(), "<f4").tobytes()
                self.tell(Snapshot(version, steps, self.clock(), flat))
            case Announce(reason=reason):
                self.tell(Done(reason))
            case End():
                self._tell_episodes()
                self.tell(self.account.report(self.role.name, self.role.counters()))
        return None

    def _tell_episodes(self) -> None:
        """After the chunk is on its way: telling must not delay it."""
        if isinstance(self.worker, Sampler) and (finished := self.worker.take_finished()):
            self.tell(Episodes(self.role.name, self.worker.steps, self.clock(), finished))

    def close(self) -> None:
        self.worker.close()
