"""A host joins one role to its channels and its worker: it turns what came in into events and effects into deeds.

Both worlds use it; they differ in what they do between two pumps (wait in a poller, or pump the next host).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tianji.channel.base import COALESCE_NS, Endpoint, Inlet, Outlet, WeightsInlet, WeightsOutlet
from tianji.messages import ACTOR_STEPS, Done, Episodes, Progress, Saved, Snapshot, Started
from tianji.roles.role import (
    Announce,
    Arrived,
    Begin,
    Credited,
    Effect,
    End,
    Event,
    ModelArrived,
    PublishWeights,
    PushModel,
    Release,
    Role,
    SaveAsked,
    SaveState,
    Send,
    SessionLost,
    StopAsked,
    TakeSnapshot,
    WeightsArrived,
    Work,
    WorkDone,
)
from tianji.telemetry import Clock, Sink
from tianji.worlds.sampler import Sampler
from tianji.worlds.trainer import Trainer
from tianji.worlds.workers import ModelWorker, Worker

EPISODES_NS = 20_000_000
"""Between two times that an actor which never sleeps tells of its episodes: a message wakes two threads and a process."""
PROGRESS_NS = 500_000_000
"""Between two times that a learner or an actor says how far it is."""

Trace = Callable[[str, Sequence[Event], Sequence[Effect]], None]
"""Is told what each role heard and what it did about it."""


@dataclass
class Models:
    """Ends of the edges on which models travel between learners and the Root, and the worker that holds them."""

    worker: ModelWorker
    inlets: dict[str, WeightsInlet]
    outlets: dict[str, WeightsOutlet]


@dataclass
class Host:
    """One role, plugged in."""

    role: Role
    worker: Worker
    tell: Sink
    clock: Clock
    """Stamps what is told, and accounts for time."""
    pace: Clock
    """The time that the role is told of: that of the clock, or one that repeats."""
    inlets: dict[str, Inlet] = field(default_factory=dict)
    outlets: dict[str, Outlet] = field(default_factory=dict)
    weights_in: WeightsInlet | None = None
    weights_out: WeightsOutlet | None = None
    models: Models | None = None
    trace: Trace | None = None
    address: str | None = None
    """Of this node, where there are several."""

    def __post_init__(self) -> None:
        self.account = self.worker.account
        self._started = False
        self._work_ns = COALESCE_NS + 1
        """How long the last piece of work took; the first is taken for a long one."""
        self._begun = False
        self._told_episodes = 0
        self._sessions_lost: dict[str, int] = {}
        """By port, as far as the role has been told."""
        self._told_ns = self.clock()
        """When it last said how far it is."""
        self._early: dict[str, Event] = {}
        """What came before the start, and must not call again."""
        self._done: list[Event] = []
        """Work that is finished, and that the role has not heard of."""

    @property
    def endpoints(self) -> list[Endpoint]:
        """Everything that a poller should watch."""
        ends: list[Endpoint] = [*self.inlets.values(), *self.outlets.values()]
        ends += [end for end in (self.weights_in, self.weights_out) if end is not None]
        return ends if self.models is None else [*ends, *self.models.inlets.values(), *self.models.outlets.values()]

    @property
    def heeded(self) -> list[Endpoint] | None:
        """Those of its ends that matter while the role idles; None: all of them."""
        port = self.role.next_model()
        if port is None or self.models is None:
            return None
        # Whoever reads a model asks for it at its outlet, maybe after it was published: unheard, it would wait for ever.
        return [self.models.inlets[port], *self.models.outlets.values()]

    @property
    def ended(self) -> bool:
        return self.role.ended

    @property
    def worked(self) -> bool:
        """Whether there is work that is done and that the role has not heard of: much may have come while it ran."""
        return bool(self._done)

    def begin(self) -> None:
        """Everybody is connected: let the role act."""
        self._begun = True
        early, self._early = self._early, {}
        self._drive(Begin(), *early.values())

    def stop(self, reason: str) -> None:
        """Ask the role to end."""
        self._drive(StopAsked(reason))

    def save(self) -> None:
        """Ask the role to store its state."""
        self._drive(SaveAsked())

    def pump(self, among: Sequence[Endpoint] | None = None) -> bool:
        """Hand the role all that has happened; say whether there was anything.

        Parameters
        ----------
        among
            ends to look at; None: all of them.
        """
        events = self._take_in(among)
        if not self._begun:
            # Others have begun before. What they send is kept, or a poller would call for it again and again.
            for event in events:
                self._keep(event)
            return False
        done, self._done = self._done, []
        if done or events:
            # First what this role has done: what came meanwhile finds it as it is now.
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
                # Of weights and models the latest counts.
                self._early[key] = event

    def _take_in(self, among: Sequence[Endpoint] | None) -> list[Event]:
        """What has come, as events."""

        def looked_at(end: Endpoint | None) -> bool:
            return end is not None and (among is None or end in among)

        events: list[Event] = []
        if self.weights_out is not None and looked_at(self.weights_out):
            self.weights_out.serve()
        for port, outlet in self.outlets.items():
            if not looked_at(outlet):
                continue
            slots = outlet.credits()
            if (lost := outlet.counters["sessions_lost"]) != self._sessions_lost.get(port, 0):
                self._sessions_lost[port] = lost
                events.append(SessionLost(port))
            if slots:
                events.append(Credited(port, slots))
        for port, inlet in self.inlets.items():
            if looked_at(inlet) and (chunks := inlet.receive()):
                events.append(Arrived(port, chunks))
        if self.weights_in is not None:
            version = self.weights_in.latest(self.worker.weights())
            if version is not None:
                # A learner publishes before it gives credit. So weights are looked for after credit, and the role hears
                # of them first: whoever was waiting for credit goes on with the weights that came with it.
                events.insert(0, WeightsArrived(version))
        if self.models is not None:
            for model_out in self.models.outlets.values():
                if looked_at(model_out):
                    model_out.serve()
            for port, source in self.models.inlets.items():
                if looked_at(source) and source.latest(self.models.worker.inbox(port)) is not None:
                    events.append(ModelArrived(port, self.models.worker.stamps(port)))
        return events

    def _drive(self, *events: Event) -> None:
        """Let the role handle events, and do what it says; work comes last, when all that others wait for is on its way."""
        effects = self.role.handle(*events)
        if self.trace is not None:
            self.trace(self.role.name, events, effects)
        work = None
        for effect in effects:
            if isinstance(effect, Work):
                if work is not None:
                    raise RuntimeError(f"{self.role.name} asked for two pieces of work at once: {work} and {effect}")
                work = effect
            else:
                self._perform(effect)
        if work is not None:
            self._work(work)

    def _work(self, work: Work) -> None:
        if not self._started:
            self._started = True
            self.tell(Started(self.role.name, self.clock()))
        if self._work_ns > COALESCE_NS:
            # Peers would wait for what was kept back until this is done.
            for end in self.endpoints:
                end.flush()
        start, paced = self.clock(), self.pace()
        result = self.worker.run(work.argument)
        now = self.clock()
        self._work_ns = now - start
        self._done.append(WorkDone(result, self.pace() - paced))
        if isinstance(self.worker, Trainer | Sampler) and now - self._told_ns > PROGRESS_NS:
            self._told_ns = now
            self.tell(Progress(self.role.name, now, {**self.role.counters(), **self._steps()}))

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
            case PublishWeights(version=version):
                assert self.weights_out is not None
                start = self.clock()
                self.weights_out.publish(version, self.worker.weights())
                self.account.busy_ns["send"] += self.clock() - start
            case PushModel(number=number, stamps=stamps, ports=ports):
                assert self.models is not None
                start = self.clock()
                model = self.models.worker.push(stamps)
                for port in ports:
                    self.models.outlets[port].publish(number, model)
                self.account.busy_ns["send"] += self.clock() - start
            case TakeSnapshot(version=version, steps=steps):
                flat = np.ascontiguousarray(self.worker.weights(), "<f4").tobytes()
                self.tell(Snapshot(version, steps, self.clock(), flat))
            case SaveState(values=values):
                assert isinstance(self.worker, Trainer)
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
                self.tell(self.account.report(self.role.name, self._counters(), self.role.histograms()))

    def _counters(self) -> dict[str, float]:
        """The role's own, what its edges dropped, and what they carried to other nodes and from them.

        Each edge's bytes are counted at one end.
        """
        found = {**self.role.counters(), **self._steps()}
        dropped: Counter[str] = Counter()
        for end in self.endpoints:
            dropped.update(end.counters)
        found.update({f"channel_{name}": float(count) for name, count in dropped.items()})
        if self.address is not None:
            beyond = (end for end in self.endpoints if end.uri.startswith("tcp://") and _host(end.uri) != self.address)
            found["payload_bytes_sent"] = float(sum(end.payload_bytes for end in beyond))
        return found

    def _steps(self) -> dict[str, float]:
        """Of an actor: its environment steps, those of its predecessors too."""
        return {ACTOR_STEPS: float(self.worker.steps)} if isinstance(self.worker, Sampler) else {}

    def tell_kept(self) -> None:
        """Tell of the episodes that ended: now and then, and before this process sleeps; never before a chunk is on its way."""
        self._told_episodes = self.pace()
        if isinstance(self.worker, Sampler) and (finished := self.worker.take_finished()):
            self.tell(Episodes(self.role.name, self.worker.steps, self.clock(), finished))

    def close(self) -> None:
        self.worker.close()


def _host(uri: str) -> str:
    """The host of an address of tcp."""
    return uri.removeprefix("tcp://").rpartition(":")[0]
