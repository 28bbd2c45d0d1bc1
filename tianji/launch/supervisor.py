"""Watches over the processes of a run: begins, hears, restarts what may be restarted, stops and ends.

It knows neither where processes live (a `Crew` does) nor what a run is for (its listener does).
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import zmq
from msgspec import Struct

from tianji.launch.crew import Crew
from tianji.messages import (
    ACTOR_STEPS,
    PROTOCOL,
    Bound,
    Episodes,
    Failed,
    FromRole,
    Hello,
    Progress,
    Report,
    Save,
    Saved,
    Start,
    Stop,
    Wiring,
    decode_from_role,
    encode,
)

SETUP_LIMIT_S = 120.0
"""Everybody must have reported in by then."""
DRAIN_LIMIT_S = 20.0
"""After a stop, roles have this long to finish their piece of work and account for themselves."""
DRAIN_SAVES = 3.0
"""And this many times as long as the longest save took: learners store their state once more."""
INTERRUPT_LIMIT_S = 5.0
"""After an interrupt, those who store nothing have no longer than this."""
LAST_WORDS_S = 1.0
"""How long after a process has left by itself what it said may take to arrive."""
BACKOFF_S, BACKOFF_MAX_S = 0.25, 8.0
"""Before the first restart of a role; each further one waits twice as long."""
FIRST_SAVE_S = 2.0
"""After the start."""
SAVING_SHARE = 0.01
"""Of the time that learners may spend with storing their state."""


class RoleFailed(RuntimeError):
    """A role's process failed, vanished or did not answer in time."""


class CoreLost(RoleFailed):
    """The process of a learner or of the Root vanished: who talked to it cannot go on."""


class Restarted(Struct, frozen=True):
    """From the supervisor: a role's process died, of this cause, and another one takes its place after a while."""

    role: str
    cause: str
    after_s: float
    at_ns: int


Heard = FromRole | Restarted
"""What a listener is told."""
Listener = Callable[[Heard], str | None]
"""The reason that it returns, if any, ends the run."""


def backoff_s(earlier: int) -> float:
    """How long to wait before a role is started again that was so often started again earlier."""
    return min(BACKOFF_S * 2.0**earlier, BACKOFF_MAX_S)


@dataclass
class Policy:
    """What a supervisor may do for a run."""

    respawn: Callable[[str, int, int, dict[str, str]], None] | None = None
    """Starts a role again: its name, how many processes it had, environment steps that they made, addresses of edges."""
    replaceable: frozenset[str] = frozenset()
    """Roles that others can go on without for a while."""
    restarts: int = 0
    """Of each role."""
    savers: frozenset[str] = frozenset()
    """Roles that store their state when they are asked."""
    save_every_s: float | None = None


@dataclass
class Supervisor:
    """Serves one launch of a run's processes.

    Parameters
    ----------
    names
        of the roles that take part.
    """

    control: zmq.Socket[bytes]
    crew: Crew
    names: frozenset[str]
    listener: Listener
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        self._routes: dict[str, bytes] = {}
        self._greeted: set[str] = set()
        self._bound: dict[str, dict[str, str]] = {}
        self._addresses: dict[str, str] = {}
        self._reported: set[str] = set()
        self._causes: dict[str, str] = {}
        """Why a role whose process has yet to end failed, in its own words."""
        self._over: set[str] = set()
        """Roles whose process has ended, and no other one taken its place."""
        self._lives: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        self._due: dict[str, float] = {}
        """When roles are started again."""
        self._saving: set[str] = set()
        self._save_at = math.inf
        self._save_ns = 0
        self._longest_save_ns = 0
        self._stopping: str | None = None
        self._begun_at: float | None = None

    def supervise(self, stop_seconds: float | None) -> None:
        """Serve until every role has reported and gone.

        Raises
        ------
        CoreLost
            when a role vanished that others cannot go on without.
        RoleFailed
            when a role failed, or vanished once too often.
        """
        deadline = time.monotonic() + SETUP_LIMIT_S
        try:
            while len(self._reported) < len(self.names):
                limit = min(self._limit(deadline, stop_seconds), self._save_at, *self._due.values(), math.inf)
                one_ended = self._wait(limit)
                self._listen()
                for end in self._ends() if one_ended else ():
                    self._gone(*end)
                self._on_time(deadline, stop_seconds)
        except KeyboardInterrupt:
            self.stop("interrupted")
            self._drain()
            raise

    def _wait(self, limit: float) -> bool:
        """Wait for a message, a process's end or this moment; whether a process ended."""
        poller, descriptors = zmq.Poller(), self.crew.descriptors
        poller.register(self.control, zmq.POLLIN)
        for descriptor in descriptors:
            poller.register(descriptor, select.POLLIN)
        ready = dict(poller.poll(None if limit == math.inf else max(0, math.ceil((limit - time.monotonic()) * 1000))))
        return any(descriptor in ready for descriptor in descriptors)

    # Time

    def _limit(self, setup_deadline: float, stop_seconds: float | None) -> float:
        if self._stopping is not None:
            return self._stop_deadline
        if self._begun_at is None:
            return setup_deadline
        return math.inf if stop_seconds is None else self._begun_at + stop_seconds

    def _on_time(self, setup_deadline: float, stop_seconds: float | None) -> None:
        now = time.monotonic()
        if now >= self._limit(setup_deadline, stop_seconds) and len(self._reported) < len(self.names):
            self._out_of_time()
        if self._stopping is not None:
            return
        for name in [name for name, at in self._due.items() if now >= at]:
            del self._due[name]
            assert self.policy.respawn is not None
            self._over.discard(name)
            self.policy.respawn(name, self._lives[name], self._steps.get(name, 0), self._addresses)
        if now >= self._save_at:
            self._save_at, self._save_ns = math.inf, 0
            self._saving = set(self.policy.savers)
            for name in self._saving:
                self._tell(name, Save())

    def _out_of_time(self) -> None:
        if self._stopping is not None:
            missing = sorted(self.names - self._reported)
            raise RoleFailed(f"{', '.join(missing)} did not end within {self._drain_s:.0f} s of being asked to")
        if self._begun_at is None:
            missing = sorted(self.names - self._greeted)
            raise RoleFailed(f"{', '.join(missing)} did not start within {SETUP_LIMIT_S:.0f} s")
        self.stop("seconds")

    # What roles say

    def _listen(self) -> None:
        while True:
            try:
                route, frame = self.control.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._heard(route, decode_from_role(frame))

    def _heard(self, route: bytes, message: FromRole) -> None:
        match message:
            case Bound(role=role, protocol=protocol, addresses=addresses):
                self._admit(role, protocol, route)
                self._bound[role] = addresses
                if self._bound.keys() == self.names:
                    self._addresses = {name: uri for bound in self._bound.values() for name, uri in bound.items()}
                    for name in self.names:
                        self._tell(name, Wiring(self._addresses))
            case Hello(role=role, protocol=protocol):
                self._admit(role, protocol, route)
                self._hello(role)
            case Failed(role=role, error=error):
                if not self._may_replace(role) and not self._need_not_end_well(role):
                    raise RoleFailed(f"{role} failed: {error}")
                self._causes[role] = f"failed: {error}"
            case Report(role=role):
                self._reported.add(role)
            case Episodes(role=role, actor_steps=steps):
                self._steps[role] = steps
            case Progress(role=role, counters=counters) if ACTOR_STEPS in counters:
                # An episode may be long: its actor's successor goes on from here.
                self._steps[role] = int(counters[ACTOR_STEPS])
            case Saved(role=role, took_ns=took):
                self._saving.discard(role)
                self._save_ns = max(self._save_ns, took)
                self._longest_save_ns = max(self._longest_save_ns, took)
                if not self._saving and self.policy.save_every_s is not None and self._stopping is None:
                    self._save_at = time.monotonic() + max(self.policy.save_every_s, self._save_ns / 1e9 / SAVING_SHARE)
        self._tell_listener(message)

    def _tell_listener(self, message: Heard) -> None:
        if (reason := self.listener(message)) and self._stopping is None:
            self.stop(reason)

    def _admit(self, role: str, protocol: int, route: bytes) -> None:
        if protocol != PROTOCOL:
            raise RoleFailed(f"{role} speaks protocol {protocol}, not {PROTOCOL}")
        if role not in self.names:
            raise RoleFailed(f"{role} takes no part in this run")
        self._routes[role] = route

    def _hello(self, role: str) -> None:
        self._greeted.add(role)
        if self._begun_at is not None:
            # A successor: the others have begun.
            self._tell(role, Start())
            if self._stopping is not None:
                self._tell(role, Stop(self._stopping))
        elif self._greeted == self.names:
            self._begun_at = time.monotonic()
            if self.policy.save_every_s is not None and self.policy.savers:
                self._save_at = self._begun_at + min(FIRST_SAVE_S, self.policy.save_every_s)
            for name in self.names:
                self._tell(name, Start())

    # Ends

    def _may_replace(self, name: str) -> bool:
        """Whether this role can be started again. What fails before the start would fail again."""
        running = self._begun_at is not None and self._stopping is None
        return running and name in self.policy.replaceable and self._lives.get(name, 0) < self.policy.restarts

    def _need_not_end_well(self, name: str) -> bool:
        """Whether this role would end now in any case: of one that fails while the run stops only its account is missing."""
        return self._stopping is not None and name in self.policy.replaceable and self.policy.restarts > 0

    def _gone(self, name: str, how: str, by_itself: bool) -> None:
        """A process ended: in order once it has reported, otherwise a failure, after hearing its last words."""
        self._hear_out(name, by_itself=by_itself)
        if name in self._reported:
            return
        cause = f"{name} {self._causes.pop(name, f'ended with {how} before it had reported')}"
        if self._may_replace(name):
            earlier = self._lives.get(name, 0)
            self._lives[name] = earlier + 1
            after = backoff_s(earlier)
            self._due[name] = time.monotonic() + after
            self._tell_listener(Restarted(name, cause, after, time.monotonic_ns()))
        elif self._need_not_end_well(name):
            self._reported.add(name)
        elif self._begun_at is not None and self.policy.restarts and name not in self.policy.replaceable:
            # Also of a run that is stopping: what it learned last is made again from what was stored.
            raise CoreLost(cause)
        else:
            raise RoleFailed(cause)

    def _ends(self) -> list[tuple[str, str, bool]]:
        """Processes that ended since this was asked last; see `Crew.ended`."""
        ended = self.crew.ended()
        self._over.update(name for name, *_ in ended)
        return ended

    def _hear_out(self, name: str, *, by_itself: bool) -> None:
        """What a process said before it left by itself may still be on its way to this socket when its end is known."""
        self._listen()
        deadline = time.monotonic() + LAST_WORDS_S
        while by_itself and name not in self._reported | self._causes.keys() and (left := deadline - time.monotonic()) > 0:
            if self.control.poll(math.ceil(left * 1000)):
                self._listen()

    def stop(self, reason: str) -> None:
        """Ask every role to finish."""
        self._stopping, self._save_at = reason, math.inf
        self._stop_deadline = time.monotonic() + self._drain_s
        # Whoever waits to be started again has nothing to finish.
        self._reported.update(self._due)
        self._due.clear()
        for name in self._routes:
            self._tell(name, Stop(reason))

    @property
    def _drain_s(self) -> float:
        return DRAIN_LIMIT_S + DRAIN_SAVES * self._longest_save_ns / 1e9

    def _tell(self, name: str, message: Wiring | Start | Save | Stop) -> None:
        self.control.send_multipart([self._routes[name], encode(message)], zmq.NOBLOCK)

    def _drain(self) -> None:
        """After an interrupt: hear reports for a short while, and until learners have stored their state."""
        others = time.monotonic() + INTERRUPT_LIMIT_S
        while missing := self._routes.keys() - self._reported - self._over:
            deadline = self._stop_deadline if missing & self.policy.savers else others
            if time.monotonic() >= deadline:
                return
            if self._wait(deadline):
                for name, _, by_itself in self._ends():
                    self._hear_out(name, by_itself=by_itself)
            self._listen()

    def end(self) -> None:
        """Leave no process: those that have reported end by themselves, the others are killed."""
        self.crew.end(self._reported)
