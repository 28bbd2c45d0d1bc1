"""A run on this machine: one process for each role, joined through sockets in a private directory."""

from __future__ import annotations

import math
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec
import zmq

from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.messages import PROTOCOL, Failed, FromRole, Hello, Report, Start, Stop, decode_from_role, encode
from tianji.topology import build
from tianji.worlds.real import Assignment

SETUP_LIMIT_S = 120.0
"""Everybody must have reported in by then."""
DRAIN_LIMIT_S = 20.0
"""After a stop, roles have this long to finish their piece of work and account for themselves."""
LAST_WORDS_S = 1.0
"""How long after a process has left by itself what it said may take to arrive."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
"""Roles are processes; a thread pool in each would fight the others for the cores."""


class RoleFailed(RuntimeError):
    """A role's process failed, vanished or did not answer in time."""


def run(
    config: TrainConfig,
    describe: EnvDescription,
    on_message: Callable[[FromRole], str | None],
) -> None:
    """Run to the end.

    Parameters
    ----------
    on_message
        is told everything that roles report; the reason it returns, if any, ends the run.

    Raises
    ------
    RoleFailed
        when a role fails; the others have been ended by then.
    KeyboardInterrupt
        passed on after the roles have been asked to stop and have told what they did.
    """
    with ExitStack() as stack:
        control, base_uri = stack.enter_context(control_socket())
        topology = build(config, f"{config.channel}://{base_uri.removeprefix('ipc://')}")
        supervisor = Supervisor(control, on_message)
        stack.callback(supervisor.end)
        for spec in topology.roles:
            assignment = Assignment(
                spec=spec,
                config=config,
                describe=describe,
                topology=topology,
                control_uri=f"{base_uri}/control",
                parent=os.getpid(),
                import_path=tuple(map(str, sys.path)),
            )
            supervisor.spawn(spec.name, ["tianji.worlds.real", f"tj-{spec.name}"], msgspec.json.encode(assignment))
        supervisor.supervise(config.stop_seconds)


@contextmanager
def control_socket() -> Iterator[tuple[zmq.Socket[bytes], str]]:
    """The socket at BASE/control that roles report to, and BASE: `ipc://` and a private directory, for other sockets."""
    with ExitStack() as stack:
        directory = tempfile.mkdtemp(prefix="tianji-", dir=_short_temporary_directory())
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        context: zmq.Context[zmq.Socket[bytes]] = stack.enter_context(zmq.Context())
        control = stack.enter_context(context.socket(zmq.ROUTER))
        control.setsockopt(zmq.LINGER, 0)
        control.setsockopt(zmq.RCVHWM, 0)
        control.bind(f"ipc://{directory}/control")
        yield control, f"ipc://{directory}"


def _short_temporary_directory() -> str | None:
    """A socket's path must fit in `zmq.IPC_PATH_MAX_LEN` bytes; a long TMPDIR gives way to /tmp."""
    return "/tmp" if len(tempfile.gettempdir()) + 40 > zmq.IPC_PATH_MAX_LEN else None


class Supervisor:
    """Starts role processes, waits on them and on what they say, and ends them."""

    def __init__(self, control: zmq.Socket[bytes], on_message: Callable[[FromRole], str | None]) -> None:
        self.control = control
        self.on_message = on_message
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._pidfds: dict[int, str] = {}
        self._routes: dict[str, bytes] = {}
        self._reported: set[str] = set()
        self._stopping: str | None = None
        self._begun_at: float | None = None

    def spawn(self, name: str, command: Sequence[str], assignment: bytes, fds: tuple[int, ...] = ()) -> None:
        """Start one role's process: `python -m COMMAND` with the assignment on its standard input, inheriting `fds`."""
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdin=subprocess.PIPE,
            stdout=2,  # Whatever a library prints goes to our stderr; sys.stderr may be no file at all (a notebook).
            pass_fds=fds,
            env={**os.environ, **ONE_THREAD},
        )
        assert process.stdin is not None
        process.stdin.write(assignment)
        process.stdin.close()
        self.processes[name] = process
        self._pidfds[os.pidfd_open(process.pid)] = name

    def supervise(self, stop_seconds: float | None) -> None:
        """Serve until every role has reported and gone."""
        poller = zmq.Poller()
        poller.register(self.control, zmq.POLLIN)
        for fd in self._pidfds:
            poller.register(fd, select.POLLIN)
        deadline = time.monotonic() + SETUP_LIMIT_S
        try:
            while len(self._reported) < len(self.processes):
                limit = self._limit(deadline, stop_seconds)
                timeout = None if limit is None else max(0, math.ceil((limit - time.monotonic()) * 1000))
                ready = dict(poller.poll(timeout))
                if self.control.fileno() in ready or self.control in ready:
                    self._listen()
                for fd in ready:
                    if fd in self._pidfds:
                        self._gone(self._pidfds[fd])
                        poller.unregister(fd)
                if not ready and limit is not None and time.monotonic() >= limit:
                    self._out_of_time()
        except KeyboardInterrupt:
            self.stop("interrupted")
            self._drain()
            raise

    def _limit(self, setup_deadline: float, stop_seconds: float | None) -> float | None:
        if self._stopping is not None:
            return self._stop_deadline
        if self._begun_at is None:
            return setup_deadline
        return None if stop_seconds is None else self._begun_at + stop_seconds

    def _out_of_time(self) -> None:
        if self._stopping is not None:
            missing = sorted(set(self.processes) - self._reported)
            raise RoleFailed(f"{', '.join(missing)} did not end within {DRAIN_LIMIT_S:.0f} s of being asked to")
        if self._begun_at is None:
            missing = sorted(set(self.processes) - set(self._routes))
            raise RoleFailed(f"{', '.join(missing)} did not start within {SETUP_LIMIT_S:.0f} s")
        self.stop("seconds")

    def _listen(self) -> None:
        while True:
            try:
                route, frame = self.control.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._heard(route, decode_from_role(frame))

    def _heard(self, route: bytes, message: FromRole) -> None:
        match message:
            case Hello(role=role, protocol=protocol):
                if protocol != PROTOCOL:
                    raise RoleFailed(f"{role} speaks protocol {protocol}, not {PROTOCOL}")
                self._routes[role] = route
                if len(self._routes) == len(self.processes):
                    self._begun_at = time.monotonic()
                    self._tell_all(encode(Start()))
            case Failed(role=role, error=error):
                raise RoleFailed(f"{role} failed: {error}")
            case Report(role=role):
                self._reported.add(role)
        if (reason := self.on_message(message)) and self._stopping is None:
            self.stop(reason)

    def _gone(self, name: str) -> None:
        """A process ended: in order once it has reported, otherwise a failure, after hearing its last words."""
        status = self.processes[name].wait()
        self._listen()
        # What a process said before it left by itself may still be on its way to this socket when its end is known.
        deadline = time.monotonic() + LAST_WORDS_S
        while status >= 0 and name not in self._reported and (left := deadline - time.monotonic()) > 0:
            if self.control.poll(math.ceil(left * 1000)):
                self._listen()
        if name not in self._reported:
            raise RoleFailed(f"{name} ended with status {status} before it had reported")

    def stop(self, reason: str) -> None:
        """Ask every role to finish."""
        self._stopping = reason
        self._stop_deadline = time.monotonic() + DRAIN_LIMIT_S
        self._tell_all(encode(Stop(reason)))

    def _tell_all(self, frame: bytes) -> None:
        for route in self._routes.values():
            self.control.send_multipart([route, frame], zmq.NOBLOCK)

    def _drain(self) -> None:
        """After an interrupt: hear the reports of those who can still give one, for a short while."""
        deadline = time.monotonic() + 5
        while len(self._reported) < len(self._routes):
            if not self.control.poll(int(max(0.0, deadline - time.monotonic()) * 1000)):
                return
            self._listen()

    def end(self) -> None:
        """Leave no process: those that have reported end by themselves, the others are killed."""
        for name, process in self.processes.items():
            if name not in self._reported:
                process.send_signal(signal.SIGKILL)
        for process in self.processes.values():
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for fd in self._pidfds:
            os.close(fd)
        self._pidfds.clear()
