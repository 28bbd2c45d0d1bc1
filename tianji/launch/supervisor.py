"""Supervisor of the processes of a run: starts, watches, restarts, stops and ends them.

It does not know where processes run, which is the task of a `Crew`, nor what they train, which is the task of the listener.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import zmq

from programs.process import boot
from tianji.launch.clocks import Clocks
from tianji.launch.crew import Crew
from tianji.launch.events import CoreLost, Heard, Listener, Restarted, RoleFailed, Trouble
from tianji.launch.recovery import Recovery, backoff_s
from tianji.launch.saves import Saves
from tianji.launch.silent_processes import Silence
from tianji.launch.starts import LOOK_S, Starts
from tianji.messages import (
    ACTOR_STEPS,
    PROTOCOL,
    Episodes,
    Failed,
    FromRole,
    Hello,
    Ping,
    PortsOpen,
    Progress,
    ProtocolError,
    Report,
    Save,
    Saved,
    Snapshot,
    Start,
    Stop,
    Taken,
    Wiring,
    decode_from_role,
    encode,
)

DRAIN_LIMIT_S = 20.0
"""Seconds that roles have after a stop to finish their work and report."""
DRAIN_SAVES = 3.0
"""Further time after a stop, as a multiple of the longest save, because learners save once more."""
INTERRUPT_LIMIT_S = 4.0
"""Seconds that roles without state to save have after an interrupt."""
LOOKS = 4
"""Number of checks for silent processes within the time limit of silence."""
LAST_WORDS_S = 1.0
"""Seconds that the last messages of a process may take after it ended by itself."""


def new_badges(names: Iterable[str]) -> dict[str, bytes]:
    """Make a secret for each process, used as the identity of its socket."""
    return {name: b"tj" + os.urandom(16) for name in names}


@dataclass
class Supervisor:
    """Supervises one launch of a run's processes.

    Parameters
    ----------
    names
        of the processes that take part, each named after its first role.
    edges
        names of the edges of each process that has ends at open ports, by its name: it reports its ports, and gets the
        addresses of these edges. None: all processes do, and get all addresses.
    """

    control: zmq.Socket[bytes]
    crew: Crew
    names: frozenset[str]
    listener: Listener
    recovery: Recovery = field(default_factory=Recovery)
    badges: Mapping[str, bytes] | None = None
    """Secret of each process by name. None: names are trusted."""
    edges: Mapping[str, Collection[str]] | None = None

    def __post_init__(self) -> None:
        self._known = frozenset((self.badges or {}).values())
        self.dropped: Counter[str] = Counter()
        """Number of invalid messages, and of messages from unknown senders."""
        self._routes: dict[str, bytes] = {}
        self._processes: dict[bytes, str] = {}
        """Name of the process of each route."""
        self._greeted: set[str] = set()
        self._bound: dict[str, dict[str, str]] = {}
        self._addresses: dict[str, str] = {}
        self._reported: set[str] = set()
        self._causes: dict[str, str] = {}
        """Error of each role that reported a failure and whose process has not ended yet."""
        self._over: set[str] = set()
        """Roles whose process has ended without a restart."""
        self._lives: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        self._due: dict[str, float] = {}
        """Times of pending restarts, by role."""
        self._saves = Saves()
        self._silence = Silence()
        self._starts = Starts(self.recovery.silence_s)
        self._clocks = Clocks(boot())
        self._abandoned: set[str] = set()
        """Roles for whose end the supervisor did not wait."""
        self._stopping: str | None = None
        self._begun_at: float | None = None

    def supervise(self, stop_seconds: float | None) -> None:
        """Supervise until every role has reported and ended.

        Raises
        ------
        CoreLost
            if a role vanished without which others cannot continue.
        RoleFailed
            if a role failed, or vanished more often than it may be restarted.
        """
        # The launcher may have set them since this was made.
        self._starts = Starts(self.recovery.silence_s)
        self._starts.begin(self.names, time.monotonic())
        try:
            while len(self._reported) < len(self.names):
                every_s = LOOK_S if self._starts.names else (self.recovery.silence_s or math.inf) / LOOKS
                look = time.monotonic() + every_s
                limit = min(self._limit(stop_seconds), self._saves.due_at, look, *self._due.values())
                one_ended = self._wait(limit)
                self._listen()
                for end in self._ends() if one_ended else ():
                    self._gone(*end)
                self._on_time(stop_seconds)
        except KeyboardInterrupt:
            self.stop("interrupted")
            self._drain()
            raise

    def _wait(self, limit: float) -> bool:
        """Wait for a message, the end of a process, or the time `limit`. True if a process ended."""
        poller, descriptors = zmq.Poller(), self.crew.descriptors
        poller.register(self.control, zmq.POLLIN)
        for descriptor in descriptors:
            poller.register(descriptor, select.POLLIN)
        ready = dict(poller.poll(None if limit == math.inf else max(0, math.ceil((limit - time.monotonic()) * 1000))))
        return any(descriptor in ready for descriptor in descriptors)

    # Time

    def _limit(self, stop_seconds: float | None) -> float:
        if self._stopping is not None:
            return self._stopped_at + INTERRUPT_LIMIT_S if self._only_accounts_missing else self._stop_deadline
        return math.inf if stop_seconds is None or self._begun_at is None else self._begun_at + stop_seconds

    def _on_time(self, stop_seconds: float | None) -> None:
        now = time.monotonic()
        if now >= self._limit(stop_seconds) and len(self._reported) < len(self.names):
            self._out_of_time()
        if self._stopping is not None:
            return
        for name in [name for name, at in self._due.items() if now >= at]:
            del self._due[name]
            assert self.recovery.respawn is not None
            self._over.discard(name)
            self._starts.begin([name], now)
            self.recovery.respawn(name, self._lives[name], self._steps.get(name, 0), self._addresses)
        self._look_at_starts(now)
        self._look_for_silence(now)
        for name in self._saves.ask(now):
            self._tell(name, Save())

    def _look_at_starts(self, now: float) -> None:
        """Report processes that take long to start, and give up those that do not get on."""
        starting = self._starts.names
        if not starting:
            return
        slow, stuck = self._starts.look({name: self.recovery.doing(name) for name in starting}, now)
        for name, why in slow.items():
            self._warn(name, f"{name} has not started: {why}")
        for name, why in stuck.items():
            if self._begun_at is None:
                raise RoleFailed(f"{name} did not start: {why}")
            self._causes[name] = f"did not start again: {why}"
            self.crew.kill(name)

    def _look_for_silence(self, now: float) -> None:
        """Ping processes that were silent for a while, and report those that do not answer."""
        limit = self.recovery.silence_s
        if limit is None or self._begun_at is None:
            return
        names = self._routes.keys() - self._over - self._due.keys() - self._reported - self._starts.names
        ping, tell = self._silence.look(names, now, limit)
        for name in ping:
            self._tell(name, Ping())
        for name in tell:
            ends = self.recovery.replace_silent and name in self.recovery.replaceable
            again = "started again" if self._may_replace(name) else "not started again"
            what = f"it is ended and {again}" if ends else "the run goes on without it as far as it can"
            where = self.recovery.doing(name) or ("an environment may hang" if name.startswith("actor") else "")
            why = f"has not answered for {limit:g} s" + (f"; {where}" if where else "")
            self._warn(name, f"{name} {why}; {what}")
            if ends:
                self._causes[name] = why
                self.crew.kill(name)

    def _warn(self, name: str, text: str) -> None:
        self._tell_listener(Trouble(name, text, time.monotonic_ns()))

    @property
    def _only_accounts_missing(self) -> bool:
        """Whether the roles that have not ended have nothing left to send but their final reports."""
        return all(self._need_not_end_well(name) for name in self.names - self._reported)

    def _out_of_time(self) -> None:
        if self._stopping is not None:
            missing = sorted(self.names - self._reported)
            if self._only_accounts_missing:
                # Their processes are ended with the launch.
                for name in missing:
                    self._abandoned.add(name)
                    self._warn(name, f"{name} does not answer, and was ended{self._in(name)}")
                self._reported.update(missing)
                return
            raise RoleFailed(f"{', '.join(missing)} did not end within {self._drain_s:.0f} s of being asked to")
        self.stop("seconds")

    # Messages of roles

    def _listen(self) -> None:
        while True:
            try:
                route, *frames = self.control.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if self.badges is not None and route not in self._known:
                self.dropped["unknown"] += 1
                continue
            try:
                message = decode_from_role(b"".join(frames))
            except ProtocolError:
                self.dropped["malformed"] += 1
                continue
            self._heard(route, message)

    def _heard(self, route: bytes, message: FromRole) -> None:
        name = getattr(message, "role", None)
        if isinstance(message, PortsOpen | Hello) and name not in self.names:
            self.dropped["unknown"] += 1
            return
        process = self._processes.get(route)
        if process is not None:
            self._silence.heard(process, time.monotonic())
            message = self._clocks.translated(process, message, time.monotonic_ns())
        match message:
            case PortsOpen(role=role, protocol=protocol, addresses=addresses):
                self._admit(role, protocol, route)
                self._bound[role] = addresses
                if self._bound.keys() == (self.names if self.edges is None else self.edges.keys()):
                    self._wire()
            case Hello(role=role, protocol=protocol, boot=host, at_ns=at):
                self._admit(role, protocol, route)
                self._clocks.greeted(role, host, at, time.monotonic_ns())
                self._hello(role)
            case Failed(role=role, error=error, lasting=lasting, traceback=trace):
                if lasting or (not self._may_replace(role) and not self._need_not_end_well(role)):
                    raise RoleFailed(f"{role} failed: {error}", trace)
                self._causes[role] = f"failed: {error}"
            case Report(role=role):
                self._reported |= {role} & self.names  # Other roles share the process of one of these.
            case Episodes(role=role, actor_steps=steps):
                self._steps[role] = steps
            case Progress(role=role, counters=counters) if ACTOR_STEPS in counters:
                # An episode may be long, so a restarted actor continues from this count.
                self._steps[role] = int(counters[ACTOR_STEPS])
            case Saved(role=role, took_ns=took):
                self._saves.saved(role, took, time.monotonic())
        self._tell_listener(message)
        if isinstance(message, Snapshot) and process is not None:
            # The learner sends no more than a few that the listener has not read.
            self._tell(process, Taken())

    def _wire(self) -> None:
        """Send the addresses that processes have bound to those that have an end there."""
        self._addresses = {edge: uri for bound in self._bound.values() for edge, uri in bound.items()}
        for name in self._bound:
            own = self._addresses if self.edges is None else self._addresses.keys() & self.edges[name]
            self._tell(name, Wiring({edge: self._addresses[edge] for edge in own}))

    def _tell_listener(self, message: Heard) -> None:
        if (reason := self.listener(message)) and self._stopping is None:
            self.stop(reason)

    def _admit(self, role: str, protocol: int, route: bytes) -> None:
        if protocol != PROTOCOL:
            raise RoleFailed(f"{role} speaks protocol {protocol}, not {PROTOCOL}")
        self._routes[role], self._processes[route] = route, role
        self._silence.heard(role, time.monotonic())

    def _hello(self, role: str) -> None:
        self._greeted.add(role)
        self._starts.greeted(role)
        if self._begun_at is not None:
            # A restarted role: the others have begun already.
            self._tell(role, Start())
            if self._stopping is not None:
                self._tell(role, Stop(self._stopping))
        elif self._greeted == self.names:
            self._begun_at = time.monotonic()
            self._saves.begin(self.recovery.savers, self.recovery.save_every_s, self._begun_at)
            for name in self.names:
                self._tell(name, Start())

    # Ends of processes

    def _may_replace(self, name: str) -> bool:
        """Whether this role can be restarted. A failure before the start would happen again."""
        running = self._begun_at is not None and self._stopping is None
        return running and name in self.recovery.replaceable and self._lives.get(name, 0) < self.recovery.restarts

    def _need_not_end_well(self, name: str) -> bool:
        """Whether this role may fail now without harm, because the run stops and only its final report is missing."""
        return self._stopping is not None and name in self.recovery.replaceable and self.recovery.restarts > 0

    def _gone(self, name: str, how: str, by_itself: bool) -> None:
        """Handle the end of a process, after its last messages. It is a failure unless the process had reported."""
        self._hear_out(name, by_itself=by_itself)
        if name in self._reported:
            return
        self._starts.greeted(name)
        cause = f"{name} {self._causes.pop(name, f'ended with {how} before it had reported{self._in(name)}')}"
        if self._may_replace(name):
            earlier = self._lives.get(name, 0)
            self._lives[name] = earlier + 1
            after = backoff_s(earlier)
            self._due[name] = time.monotonic() + after
            self._tell_listener(Restarted(name, cause, after, time.monotonic_ns()))
        elif self._need_not_end_well(name):
            self._reported.add(name)
        elif self._begun_at is not None and self.recovery.restarts and name not in self.recovery.replaceable:
            # Also while the run stops, because the last updates are repeated from the checkpoint.
            raise CoreLost(cause)
        else:
            raise RoleFailed(cause)

    def _in(self, name: str) -> str:
        """Call into an environment in which a process ended or hangs, as the end of a line."""
        where = self.recovery.doing(name)
        return f"; {where}" if where else ""

    def _ends(self) -> list[tuple[str, str, bool]]:
        """Processes that ended since the last call; see `Crew.ended`."""
        ended = self.crew.ended()
        self._over.update(name for name, *_ in ended)
        return ended

    def _hear_out(self, name: str, *, by_itself: bool) -> None:
        """Read the last messages of a process. They may arrive after its end is known, if it ended by itself."""
        self._listen()
        deadline = time.monotonic() + LAST_WORDS_S
        while by_itself and name not in self._reported | self._causes.keys() and (left := deadline - time.monotonic()) > 0:
            if self.control.poll(math.ceil(left * 1000)):
                self._listen()

    def stop(self, reason: str) -> None:
        """Ask every role to finish."""
        self._stopping, self._stopped_at = reason, time.monotonic()
        self._saves.end()
        self._stop_deadline = self._stopped_at + self._drain_s
        # A role that waits for its restart has nothing to finish.
        self._reported.update(self._due)
        self._due.clear()
        for name in self._routes:
            self._tell(name, Stop(reason))

    @property
    def _drain_s(self) -> float:
        return DRAIN_LIMIT_S + DRAIN_SAVES * self._saves.longest_ns / 1e9

    def _tell(self, name: str, message: Wiring | Start | Save | Stop | Ping | Taken) -> None:
        self.control.send_multipart([self._routes[name], encode(message)], zmq.NOBLOCK)

    def _drain(self) -> None:
        """After an interrupt, read reports for a short while, and until learners have saved their state."""
        others = time.monotonic() + INTERRUPT_LIMIT_S
        while missing := self._routes.keys() - self._reported - self._over:
            deadline = self._stop_deadline if missing & self.recovery.savers else others
            if time.monotonic() >= deadline:
                return
            if self._wait(deadline):
                for name, _, by_itself in self._ends():
                    self._hear_out(name, by_itself=by_itself)
            self._listen()

    def end(self) -> None:
        """End all processes: those that have reported end by themselves, the others are killed."""
        for name in self.crew.end(self._reported - self._abandoned):
            self._warn(name, f"{name} did not end by itself, and was ended{self._in(name)}")
