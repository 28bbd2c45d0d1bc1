"""Host of a role: connects it to its channels and its worker, turns arrivals into events, and performs effects.

Both worlds use it. Between two pumps, the real world waits in a poller and the lockstep world pumps the next host.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tianji.algorithms.base import Slices
from tianji.channel.base import COALESCE_NS, Endpoint, Inlet, Outlet, WeightsInlet, WeightsOutlet
from tianji.messages import ACTOR_STEPS, Done, Episodes, Progress, Saved, Snapshot, Started
from tianji.roles.role import (
    Announce,
    Arrived,
    Begin,
    Credited,
    Cut,
    Effect,
    End,
    Event,
    ModelArrived,
    PublishWeights,
    PushModel,
    Release,
    Renew,
    Role,
    SaveAsked,
    SaveState,
    Send,
    SessionLost,
    StopAsked,
    TakeSnapshot,
    WeightsWait,
    Work,
    WorkDone,
)
from tianji.telemetry import Clock, Sink
from tianji.worlds import publication
from tianji.worlds.workers import ModelWorker, Worker

L = TypeVar("L", bound=Endpoint)

EPISODES_NS = 20_000_000
"""Minimum nanoseconds between a busy actor's episode reports. A message wakes two threads and a process."""
BURST_NS = 5_000_000
"""Nanoseconds of work between two checks for arrivals. A check takes some ten microseconds."""
PROGRESS_NS = 500_000_000
"""Minimum nanoseconds between two progress messages of a learner or an actor."""

Trace = Callable[[str, Sequence[Event], Sequence[Effect]], None]
"""Function that receives the events and effects of each role."""


@dataclass
class Models:
    """Ends of the edges between learners and the Root, and the worker that holds the models."""

    worker: ModelWorker
    inlets: dict[str, WeightsInlet]
    outlets: dict[str, WeightsOutlet]


@dataclass(eq=False)
class Host:
    """One role with its channels and its worker."""

    role: Role
    worker: Worker
    tell: Sink
    clock: Clock
    """Clock of messages and of the account of time."""
    pace: Clock
    """Clock of the times that the role receives: the same one, or a count that repeats in every run."""
    inlets: dict[str, Inlet] = field(default_factory=dict)
    outlets: dict[str, Outlet] = field(default_factory=dict)
    weights_in: WeightsInlet | None = None
    weights_out: WeightsOutlet | None = None
    models: Models | None = None
    trace: Trace | None = None
    address: str | None = None
    """Address of this node, if there are several."""
    leads: bool = True
    """Whether it accounts for its process. The first host of a process does."""
    burst_ns: int = BURST_NS
    """Nanoseconds of work between two checks for arrivals."""
    processor: Clock | None = None
    """Clock of the processor time of this thread. None: work is recorded by pace."""

    def __post_init__(self) -> None:
        self.account = self.worker.account
        self._started = False
        self._work_ns = COALESCE_NS + 1
        """Duration of the last work in nanoseconds. The first work counts as long."""
        self._begun = False
        self._told_episodes = 0
        self._sessions_lost: dict[str, int] = {}
        """Number of lost sessions by port, as reported to the role."""
        self._told_ns = self.clock()
        """Time of the last progress message."""
        self._published = 0
        """Publications of the weights."""
        self._early: dict[str, Event] = {}
        """Events from before the start, kept so that they do not wake the poller again."""
        self._done: list[Event] = []
        """Finished work, and weights that its work took, of which the role has not been told yet."""
        self._slices: Slices[Any] | None = None
        """Remaining slices of the current work."""
        self._took_ns = self._paced_ns = 0
        """Duration of the current work, by clock and by pace."""
        self._processor_ns = 0
        """Processor time of the current work."""
        self._used_before_s = 0.0
        """Processor time of this process before the start."""
        self._news_told = False
        self._ports: dict[Endpoint, str] | None = None
        """The port of every end of an edge with a port; None: not needed so far."""

    @property
    def endpoints(self) -> list[Endpoint]:
        """Everything that a poller should watch."""
        ends: list[Endpoint] = [*self.inlets.values(), *self.outlets.values()]
        ends += [end for end in (self.weights_in, self.weights_out) if end is not None]
        return ends if self.models is None else [*ends, *self.models.inlets.values(), *self.models.outlets.values()]

    @property
    def heeded(self) -> list[Endpoint] | None:
        """Ends that matter while the role idles; None: all of them."""
        port = self.role.next_model()
        if port is None or self.models is None:
            return None
        # A reader may ask for a model after it was published. The outlet must answer, or the reader would wait for ever.
        return [self.models.inlets[port], *self.models.outlets.values()]

    @property
    def ended(self) -> bool:
        return self.role.ended

    @property
    def worked(self) -> bool:
        """Whether there is finished work that the role has not been told of."""
        return bool(self._done)

    @property
    def working(self) -> bool:
        """Whether there is unfinished work, which `pump` continues."""
        return self._slices is not None

    def begin(self) -> None:
        """Let the role act, once all roles are connected."""
        self._begun = True
        self._used_before_s = time.process_time()
        early, self._early = self._early, {}
        self._drive(Begin(), *early.values())

    def stop(self, reason: str) -> None:
        """Ask the role to end."""
        self._drive(StopAsked(reason))

    def save(self) -> None:
        """Ask the role to store its state."""
        self._drive(SaveAsked())

    def pump(self, among: Sequence[Endpoint] | None = None) -> bool:
        """Hand all new events to the role and continue its work. True if there was anything to do.

        Parameters
        ----------
        among
            ends to check; None: all of them.
        """
        under_way = self._slices
        heard = self.listen(among)
        if under_way is not None and not self.ended and self._begun:
            self._go_on(under_way)
        return under_way is not None or heard

    def listen(self, among: Sequence[Endpoint] | None = None) -> bool:
        """Hand all new events to the role, and leave its work as it is. True if there were any."""
        events = self._take_in(among)
        if not self._begun:
            # Other roles have begun before. Their messages are kept, or the poller would wake up again and again.
            for event in events:
                self._keep(event)
            return False
        done, self._done = self._done, []
        if done or events:
            # Its own finished work comes first, so that later events meet the current state.
            self._drive(*done, *events)
        return bool(done or events)

    def _keep(self, event: Event) -> None:
        key = f"{type(event).__name__} {getattr(event, 'port', '')}"
        match event, self._early.get(key):
            case Arrived(port=port, chunks=later), Arrived(chunks=earlier):
                self._early[key] = Arrived(port, [*earlier, *later])
            case Credited(port=port, slots=later), Credited(slots=earlier):
                self._early[key] = Credited(port, [*earlier, *later])
            case _:
                # Only the latest weights and models count.
                self._early[key] = event

    def _take_in(self, among: Sequence[Endpoint] | None) -> list[Event]:
        """Read all arrivals as events."""
        events: list[Event] = []
        if self.weights_out is not None and (among is None or self.weights_out in among):
            self.weights_out.serve()
        for port, outlet in self._looked_at(self.outlets, among):
            slots = outlet.credits()
            if (lost := outlet.counters["sessions_lost"]) != self._sessions_lost.get(port, 0):
                self._sessions_lost[port] = lost
                events.append(SessionLost(port))
            if slots:
                events.append(Credited(port, slots))
        for port, inlet in self._looked_at(self.inlets, among):
            if chunks := inlet.receive():
                events.append(Arrived(port, chunks))
        if self.weights_in is not None and self._slices is not None:
            # Current work keeps the weights with which it began, unless the role says otherwise.
            if not self._news_told and self.weights_in.pending():
                self._news_told = True
                events.append(WeightsWait())
        elif self.weights_in is not None:
            stamp = self.weights_in.latest(self.worker.weights())
            if stamp is not None:
                # A learner publishes before it gives credit. So weights are read after credit and handed to the role first:
                # an actor that waited for credit then continues with the weights that came with it.
                events.insert(0, publication.read(stamp))
        if self.models is not None:
            for _, model_out in self._looked_at(self.models.outlets, among):
                model_out.serve()
            for port, source in self._looked_at(self.models.inlets, among):
                if source.latest(self.models.worker.inbox(port)) is not None:
                    events.append(ModelArrived(port, self.models.worker.stamps(port)))
        return events

    def _looked_at(self, ends: Mapping[str, L], among: Sequence[Endpoint] | None) -> Iterable[tuple[str, L]]:
        """Ends to look at, by port. A Root has many, and looks at few of them at a time."""
        if among is None or len(ends) <= len(among):
            return [(port, end) for port, end in ends.items() if among is None or end in among]
        if self._ports is None:
            all_ends: list[Mapping[str, Endpoint]] = [self.inlets, self.outlets]
            all_ends += [] if self.models is None else [self.models.inlets, self.models.outlets]
            self._ports = {end: port for own in all_ends for port, end in own.items()}
        return [(port, one) for end in among if (one := ends.get(port := self._ports.get(end, ""))) is end and one is not None]

    def _drive(self, *events: Event) -> None:
        """Let the role handle events, and perform its effects. Work comes last, after everything for which others wait."""
        effects = self.role.handle(*events)
        if self.trace is not None:
            self.trace(self.role.name, events, effects)
        work = None
        for effect in effects:
            if isinstance(effect, Work):
                if work is not None or self._slices is not None:
                    raise RuntimeError(f"{self.role.name} asked for two pieces of work at once: {work} and {effect}")
                work = effect
            else:
                self._perform(effect)
        if work is not None:
            self._work(work)
        elif effects and self._slices is not None:
            self._flush()

    def _work(self, work: Work) -> None:
        if not self._started:
            self._started = True
            self.tell(Started(self.role.name, self.clock()))
        if self._work_ns > COALESCE_NS:
            # Otherwise peers would wait for held messages until this work is done.
            self._flush()
        self._took_ns = self._paced_ns = self._processor_ns = 0
        self._news_told = False
        self._go_on(self.worker.work(work.argument))

    def _go_on(self, slices: Slices[Any]) -> None:
        """Work slice by slice, to the end or for one burst."""
        clock = self.clock
        self._slices = slices
        start, paced = clock(), self.pace()
        used = 0 if self.processor is None else self.processor()
        until = start + self.burst_ns
        try:
            while True:
                next(slices)
                if clock() >= until:
                    break
        except StopIteration as end:
            self._slices = None
            took_ns = self._paced_ns + self.pace() - paced
            self._done.append(WorkDone(end.value, took_ns))
            if self.processor is not None:
                took_ns = self._processor_ns + self.processor() - used
            if self.worker.completed is not None:
                self.account.record(self.worker.completed, took_ns)
        else:
            if self.processor is not None:
                self._processor_ns += self.processor() - used
        now = clock()
        self._took_ns += now - start
        if self.worker.cause is not None:
            self.account.busy_ns[self.worker.cause] += now - start
        if self._slices is not None:
            self._paced_ns += self.pace() - paced
        else:
            self._work_ns = self._took_ns
        if now - self._told_ns > PROGRESS_NS and (more := self.worker.progress()) is not None:
            self._told_ns = now
            self.tell(Progress(self.role.name, now, {**self.role.counters(), **more, **self.worker.metrics()}))

    def _flush(self) -> None:
        for end in self.endpoints:
            end.flush()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(port=port, chunks=chunks):
                start = self.clock()
                self.outlets[port].send(chunks)
                self.account.busy_ns["send"] += self.clock() - start
                if self.pace() - self._told_episodes > EPISODES_NS:
                    self.tell_kept()
            case Release(port=port, slots=slots):
                self.inlets[port].release(slots)
            case Cut():
                self.worker.cut()
            case Renew():
                self._renew()
            case PublishWeights(version=version, closing=closing):
                assert self.weights_out is not None
                start = self.clock()
                self._published += not closing
                stamp = publication.stamp_of(version, self._published, closing=closing)
                self.weights_out.publish(stamp, self.worker.published())
                self.account.busy_ns["send"] += self.clock() - start
            case PushModel(number=number, stamps=stamps, port=port):
                assert self.models is not None
                start = self.clock()
                self.models.outlets[port].publish(number, self.models.worker.push(stamps))
                self.account.busy_ns["send"] += self.clock() - start
            case TakeSnapshot(version=version, steps=steps):
                flat = np.ascontiguousarray(self.worker.weights(), "<f4").tobytes()
                self.tell(Snapshot(version, steps, self.clock(), flat))
            case SaveState(values=values):
                start = self.clock()
                self.worker.save(values)
                took = self.clock() - start
                self.account.busy_ns["save"] += took
                self.tell(Saved(self.role.name, values["steps"], took, self.clock()))
            case Announce(reason=reason):
                self.tell(Done(reason))
            case End():
                for end in self.endpoints:
                    end.settle()
                self.tell_kept()
                self.tell(self.account.report(self.role.name, self._counters(), self.role.histograms(), process=self.leads))

    def _renew(self) -> None:
        """Continue the current work with the latest weights."""
        assert self.weights_in is not None
        self._news_told = False
        if (stamp := self.weights_in.latest(self.worker.weights())) is not None:
            arrived = publication.read(stamp)
            self.worker.renewed(arrived.version)
            self._done.append(arrived)

    def _counters(self) -> dict[str, float]:
        """Counters of the role, of dropped messages, of bytes to and from other nodes, and of processor time since the start.

        Each edge's bytes are counted at one end.
        """
        found = {**self.role.counters(), **(self.worker.progress() or {})}
        dropped: Counter[str] = Counter()
        for end in self.endpoints:
            dropped.update(end.counters)
        found.update({f"channel_{name}": float(count) for name, count in dropped.items()})
        if self.address is not None:
            beyond = (end for end in self.endpoints if end.uri.startswith("tcp://") and _host(end.uri) != self.address)
            found["payload_bytes_sent"] = float(sum(end.payload_bytes for end in beyond))
        if self.processor is not None and self.leads:
            found["processor_s"] = time.process_time() - self._used_before_s
        return found

    def tell_kept(self) -> None:
        """Report finished episodes, now and then and before this process sleeps, after any chunk was sent."""
        self._told_episodes = self.pace()
        if finished := self.worker.take_finished():
            steps = int((self.worker.progress() or {})[ACTOR_STEPS])
            self.tell(Episodes(self.role.name, steps, self.clock(), list(finished)))

    def close(self) -> None:
        self.worker.close()


def _host(uri: str) -> str:
    """Host name of a tcp address."""
    return uri.removeprefix("tcp://").rpartition(":")[0]
