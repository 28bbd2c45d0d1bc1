"""Simulated world: the roles of a run on a clock of events. What takes hours on many nodes takes seconds on one core.

The same hosts and state machines as in the real world are driven here. Only three things are made up: workers say how long work
takes instead of doing it (`Times`), messages take the time of a link (`Machine`), and processes share the cores of a node. A
host is served when its work has taken its time or when a message has arrived, so a process that waits costs nothing.

If `learn` is set, work is also done, and takes its stated time all the same. A small run then learns, and equals a run in
lockstep to the bit where the discipline fixes the order of events.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from math import ceil
from pathlib import Path

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from tianji.algorithms.normalisation import Sizes
from tianji.channel.base import Endpoint, WeightsOutlet
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.environments.place import Place
from tianji.layout import ChunkLayout
from tianji.messages import FromRole
from tianji.simulation.links import TimedEnds
from tianji.simulation.machines import QUANTUM_NS, Machine, Node, carried
from tianji.simulation.stand_ins import PretendedAverager, PretendedSampler, PretendedTrainer, Times
from tianji.telemetry import Clock
from tianji.topology import build, place, seats
from tianji.worlds.assembly import Assembler, Past, Workers
from tianji.worlds.host import Host, Trace
from tianji.worlds.lockstep import Deadlock
from tianji.worlds.workers import Body, ModelWorker, Worker

IDEAL = Machine()
"""A machine on which only work takes time."""


class Process:
    """One process of the run. Its clock runs ahead of the simulation's while it works."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.hosts: list[Host] = []
        self.local_ns = 0
        self.due_ns: int | None = None
        """When it is served next; None: it waits for a message."""
        self.dozes = False
        """Whether it is served then because work ends, so that a message may wake it before."""
        self.asked: str | None = None
        """Reason for which it is to end, until its first host was asked."""
        self._rang: dict[Host, list[Endpoint]] | None = None
        """By host, ends at which something has arrived since it was served; None before the first time."""
        self._owed_ns = 0
        """Computation for messages that have arrived since it was served."""
        self._away_ns = 0
        """How long the host that is being served is busy with its work."""
        self._deaf = False
        """Whether nothing that arrives meanwhile is of interest to it."""
        self._away: dict[Host, tuple[int, bool]] = {}
        """By host that works: until when, and whether it is deaf."""
        self._idle: tuple[int, dict[Host, str]] | None = None
        """Since when it waits, and what each host lacks."""
        self._only: Endpoint | None = None
        """The one end whose news wake it; None: those of every end do. A reader that asks for weights always does."""

    def clock(self) -> int:
        """Its time in nanoseconds."""
        return self.local_ns

    @property
    def rationed(self) -> bool:
        """Whether it has a quota of computation in each period, so that it matters when it computes."""
        return self.node.machine.period_seconds > 0

    def compute(self, seconds: float, *, deaf: bool = False) -> Iterator[int]:
        """Compute for so long, in pieces. The iterator gives the length of each when it is over."""
        left = ceil(seconds * 1e9)
        # Nobody takes a core away where there are enough. Of a share of a core, a piece is as much as it gives in this time.
        most = ceil(QUANTUM_NS * min(1.0, self.node.machine.cores)) if self.node.crowded else left
        while left > 0:
            work, start = min(left, most), self.local_ns
            left -= work
            self._leave(self.node.compute(self, start, work, last=not left) - start, deaf)
            yield self.local_ns - start

    def handle(self, work_ns: int) -> None:
        """Compute for messages that it sends or has got."""
        self.local_ns = self.node.compute(self, self.local_ns, work_ns, last=True)

    def owes(self, work_ns: int) -> None:
        """Compute for a message that has arrived, as soon as it is served."""
        self._owed_ns += work_ns

    def sleep(self, seconds: float, *, deaf: bool = False) -> int:
        """Wait for a simulator for so long without using a core, and return the nanoseconds."""
        self._leave(ceil(seconds * 1e9), deaf)
        return self._away_ns

    def _leave(self, away_ns: int, deaf: bool) -> None:
        self._away_ns, self._deaf = away_ns, deaf
        self.local_ns += away_ns

    def host(self, name: str) -> Host:
        """The host of its role of this name."""
        return next(host for host in self.hosts if host.role.name == name)

    @property
    def ended(self) -> bool:
        return self.hosts[0].ended

    def rings(self, host: Host, end: Endpoint) -> bool:
        """Note an arrival at an end of a host. True if the process wakes up for it."""
        if self._rang is not None:
            self._rang.setdefault(host, []).append(end)
        if self.ended or (self._only is not None and end is not self._only and not isinstance(end, WeightsOutlet)):
            return False
        return self.due_ns is None or (self.dozes and not self._away.get(host, (0, False))[1])

    def serve(self, now_ns: int) -> bool:
        """Serve all hosts that have something to do once, as the real world does. True if there was any."""
        self.local_ns = max(self.local_ns, now_ns)
        if self._idle is not None:
            since, lacks = self._idle
            for host, cause in lacks.items():
                host.account.wait_ns[cause] += self.local_ns - since
            self._idle = None
        if self._owed_ns:
            owed, self._owed_ns = self._owed_ns, 0
            self.handle(owed)
        if self.asked is not None:
            self._end(self.asked)
        rang, self._rang = self._rang, {}
        moved = False
        for host in self.hosts:
            own = None if rang is None else rang.get(host, ())
            if host.ended or (own is not None and not own and not host.working and not host.worked):
                continue
            if host in self._away and self._away[host][0] > self.local_ns:
                moved |= bool(own) and host.listen(own)
                continue
            self._away.pop(host, None)
            self._away_ns = 0
            moved |= host.pump(own) and not self._away_ns
            if self._away_ns:
                # Its clock comes back, because it and the others of this process listen meanwhile.
                self._away[host] = self.local_ns, self._deaf
                self.local_ns -= self._away_ns
        # Something may have gone from one host of this process to another.
        return moved or bool(self._rang)

    def _end(self, reason: str) -> None:
        first, *others = self.hosts
        for host in others:
            host.stop(reason)
        if all(host.ended for host in others):
            first.stop(reason)
            self.asked = None

    def rest(self) -> int | None:
        """Wait for a message. The time at which work ends, if there is any."""
        lacks: dict[Host, str] = {}
        for host in self.hosts:
            if not host.ended and host not in self._away:
                host.tell_kept()
                lacks[host] = host.role.waiting_for()
        self._idle = self.local_ns, lacks
        first = self.hosts[0]
        port = first.role.next_model()
        self._only = None if port is None or first.models is None else first.models.inlets[port]
        return min((until for until, _ in self._away.values()), default=None)


class Simulation(Workers):
    """A run on a clock of events.

    Parameters
    ----------
    times
        how long work takes.
    machine
        kind of the nodes.
    nodes
        number of nodes. Roles are laid out over them as by the launchers.
    learn
        whether work is also done.
    on_message, trace
        as in `tianji.worlds.lockstep.run`.

    Attributes
    ----------
    now_ns
        time of the simulation.
    messages
        number of messages between processes so far.
    """

    def __init__(
        self,
        config: TrainConfig,
        describe: EnvDescription,
        times: Times,
        *,
        machine: Machine = IDEAL,
        nodes: int = 1,
        learn: bool = False,
        on_message: Callable[[FromRole], str | None] = lambda message: None,
        trace: Trace | None = None,
    ) -> None:
        # Workers ask for the world: in this one nothing may depend on a clock of theirs.
        self.config = config = msgspec.structs.replace(config, world="lockstep")
        self.now_ns = self.messages = 0
        self._describe, self._times, self._learn, self._listener = describe, times, learn, on_message
        self._reason: str | None = None
        self._begun = False
        self._heap: list[tuple[int, int, Process, Callable[[], None] | None]] = []
        """Arrivals, and times at which processes are served."""
        self._order = itertools.count()
        topology = build(config, "timed://run")
        where, places = place(topology.roles, nodes), [Node(machine) for _ in range(nodes)]
        self._at: dict[Endpoint, tuple[Process, Host]] = {}
        self._building: Process
        self._opened: list[Endpoint] = []
        self.processes: dict[str, Process] = {}
        channels = TimedEnds(self._post, self._apart, self._opened.append)
        assembler = Assembler(config, describe, topology, channels, self._tell, trace=trace, workers=self)
        processes = {}
        for seat in seats(config, topology.roles):
            processes[seat[0].name] = Process(places[where[seat[0].name]])
            places[where[seat[0].name]].processes += 1
            self.processes |= dict.fromkeys((spec.name for spec in seat), processes[seat[0].name])
        for spec in topology.roles:
            self._building = process = self.processes[spec.name]
            assembler.clock = assembler.pace = process.clock
            host = assembler.build(spec, Past())
            host.burst_ns, host.leads = 0, False
            process.hosts.append(host)
            self._at |= dict.fromkeys(self._opened, (process, host))
            self._opened.clear()
        self._all = list(processes.values())
        self._left = len(self._all)

    def _tell(self, message: FromRole) -> None:
        if reason := self._listener(message):
            self._reason = reason

    def _post(self, source: Endpoint, target: Endpoint, size_bytes: int, deliver: Callable[[], None]) -> None:
        (sender, _), (receiver, host) = self._at[source], self._at[target]
        if sender is receiver:
            deliver()
            receiver.rings(host, target)
            return
        self.messages += 1
        machine = sender.node.machine
        each_s = machine.message_seconds / 2
        sender.handle(ceil((each_s + size_bytes / machine.copy_bytes_per_s) * 1e9))
        if sender.node is receiver.node:
            at = sender.local_ns + ceil(machine.hop_seconds * 1e9)
        else:
            at = carried(sender.node, receiver.node, size_bytes, sender.local_ns)
        arrive = partial(self._arrive, deliver, receiver, host, target, ceil(each_s * 1e9))
        heapq.heappush(self._heap, (at, next(self._order), receiver, arrive))

    def _apart(self, source: Endpoint, target: Endpoint) -> bool:
        return self._at[source][0].node is not self._at[target][0].node

    def _serve_at(self, process: Process, at_ns: int) -> None:
        process.due_ns = at_ns
        heapq.heappush(self._heap, (at_ns, next(self._order), process, None))

    def run(self, seconds: float | None = None) -> None:
        """Run to the end of the run, or for so many seconds of the clock; then it can go on.

        Raises
        ------
        Deadlock
            if every role waits and nothing is in flight.
        """
        until = None if seconds is None else self.now_ns + ceil(seconds * 1e9)
        # As in every process of the real world; see the lockstep world. Where nothing is computed there is nothing to limit,
        # and looking for the libraries takes milliseconds.
        with threadpool_limits(1) if self._learn else nullcontext(), np.errstate(all="ignore"):
            if not self._begun:
                self._begin()
            while self._left:
                if not self._heap:
                    roles = [host.role for process in self._all for host in process.hosts if not host.ended]
                    raise Deadlock(", ".join(f"{role.name} waits for {role.waiting_for()}" for role in roles))
                if until is not None and self._heap[0][0] > until:
                    self.now_ns = until
                    return
                self._next()

    def _begin(self) -> None:
        self._begun = True
        for process in self._all:
            for host in process.hosts:
                host.begin()
            self._serve_at(process, process.local_ns)

    def _next(self) -> None:
        self.now_ns, _, process, arrive = heapq.heappop(self._heap)
        if arrive is not None:
            arrive()
            return
        if process.ended or process.due_ns != self.now_ns:
            return  # It was served earlier, as a message had come.
        process.due_ns, process.dozes = None, False
        moved = process.serve(self.now_ns) or process.asked is not None
        if process.hosts[0].ended:
            self._left -= 1
        elif moved:
            self._serve_at(process, process.local_ns)
        elif (answer := process.rest()) is not None:
            process.dozes = True
            self._serve_at(process, answer)
        if self._reason is not None:
            self._stop(self._reason)

    def _arrive(self, deliver: Callable[[], None], process: Process, host: Host, end: Endpoint, work_ns: int) -> None:
        deliver()
        process.owes(work_ns)
        at = self.now_ns + ceil(process.node.machine.wake_seconds * 1e9)
        if process.rings(host, end) and (process.due_ns is None or at < process.due_ns):
            process.dozes = False
            self._serve_at(process, at)

    def _stop(self, reason: str) -> None:
        self._reason = None
        for process in self._all:
            if not process.ended:
                process.asked = reason
                if process.due_ns is None or process.dozes:
                    process.dozes = False
                    self._serve_at(process, max(process.local_ns, self.now_ns))

    # Workers

    def averager(self, parameters: int, ports: Sequence[str], sizes: Sizes | None) -> ModelWorker:
        real = super().averager(parameters, ports, sizes) if self._learn else None
        return PretendedAverager(self._building, self._times, ports, real)

    def trainer(self, config: TrainConfig, describe: EnvDescription, body: Body, store: Path | None, group: int) -> ModelWorker:
        real = super().trainer(config, describe, body, store, group) if self._learn else None
        return PretendedTrainer(self._building, self._times, config, group, real)

    def sampler(
        self,
        config: TrainConfig,
        describe: EnvDescription,
        layout: ChunkLayout,
        body: Body,
        index: int,
        clock: Clock,
        past: Past,
        place: Place | None = None,
    ) -> Worker:
        real = super().sampler(config, describe, layout, body, index, clock, past, place) if self._learn else None
        return PretendedSampler(self._building, self._times, config, layout, index, real)
