"""A system that is a program of its own: any command, in any language.

The host process starts the command in a folder with the task as `task.json`, and reads nothing else than the events and
snapshots that the program writes there. docs/howto/program.md describes both.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from baselines.recording import EVENTS, SNAPSHOTS
from baselines.system import Recorder, System, Task
from programs.process import die_with_parent

FOLDER = "program"
"""The program's folder, within the run's."""
INTERVAL_S = 0.1
"""Seconds between two looks at its events. They carry their own times."""
GRACE_S = 8.0
"""Seconds that it has to end when it is asked to: less than the runner gives to the host process."""
LINE_BYTES, EVENTS_BYTES, SNAPSHOT_BYTES = 1 << 18, 1 << 25, 1 << 30
"""Longest line, and most bytes of events and of one snapshot."""
PLACE = re.compile(rf"{SNAPSHOTS}/[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
Count = Annotated[int, Meta(ge=0, le=2**53)]


class ProgramFailed(Exception):
    """A program broke the contract; the text is one line."""


class Line(Struct, frozen=True):
    """What the host uses of an event. The rest is checked with the whole record, when the run has ended."""

    event: Literal["first_step", "episode", "snapshot", "progress", "process", "counter", "histogram"]
    ns: Annotated[int, Meta(ge=0, le=2**62)]
    steps: Count = 0
    version: Count = 0
    length: Count = 0
    file: Annotated[str, Meta(max_length=200)] = ""
    episode_return: float = msgspec.field(name="return", default=0.0)


class Program(System):
    """A training system that is a command.

    The program trains until the budget is used, and ends in order within `GRACE_S` when it gets SIGTERM. The host sends that
    when the seconds are used, when the run may end early, or when a run is interrupted. A budget of steps is the program's to
    keep; it is asked to end if it goes a whole snapshot interval beyond it.
    """

    _process: subprocess.Popen[bytes] | None = None
    _folder: Path | None = None

    @abstractmethod
    def command(self, task: Task) -> list[str]:
        """Command that trains. It is started in its own folder, which holds `task.json`."""

    def provide(self, task: Task, folder: Path) -> None:
        """Put files that the program needs besides `task.json` into its folder."""

    def train(self, task: Task, recorder: Recorder) -> None:
        self._folder = folder = recorder.directory / FOLDER
        (folder / SNAPSHOTS).mkdir(parents=True)
        (folder / "task.json").write_bytes(msgspec.json.encode(task))
        self.provide(task, folder)
        relay = _Relay(folder, recorder)
        command = self.command(task)
        # A process dies with its parent, and has the parent's cores.
        try:
            self._process = process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, preexec_fn=partial(die_with_parent, os.getpid())
            )
        except OSError as error:
            raise ProgramFailed(f"the program does not start: {error.strerror}: {command[0]}") from None
        ended, asked_at = os.pidfd_open(process.pid), None
        try:
            while not wait([ended], INTERVAL_S):
                relay.forward()
                if asked_at is None and _is_over(task, recorder, relay):
                    process.send_signal(signal.SIGTERM)
                    asked_at = time.monotonic()
                if asked_at is not None and time.monotonic() - asked_at > GRACE_S:
                    process.kill()
                    raise ProgramFailed(f"the program did not end within {GRACE_S:.0f} s of being asked to")
        finally:
            os.close(ended)
            # Also after an interrupt: what it reports while it ends is kept.
            status = self._end()
            relay.forward()
        if status and not (asked_at is not None and status == -signal.SIGTERM):
            raise ProgramFailed(f"the program ended with status {status}")

    def _end(self) -> int:
        """End the program, first politely; its exit status."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(GRACE_S)
            self._process.kill()
        return self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._end()
        if self._folder is not None:
            # What counts of it has been passed on.
            shutil.rmtree(self._folder, ignore_errors=True)


def _is_over(task: Task, recorder: Recorder, relay: _Relay) -> bool:
    workload = task.workload
    begun = relay.first_step_ns
    spent = begun is not None and time.monotonic_ns() - begun >= workload.budget_seconds * 1e9
    return spent or recorder.may_end or relay.steps >= workload.budget_steps + workload.snapshot_every_steps


class _Relay:
    """Passes a program's events to the recorder, and its snapshots to the run's folder."""

    def __init__(self, folder: Path, recorder: Recorder) -> None:
        self._folder, self._recorder = folder, recorder
        self._read, self._rest = 0, b""
        self.steps = 0
        self.first_step_ns: int | None = None

    def forward(self) -> None:
        """Pass on what has been added since the last time.

        Raises
        ------
        ProgramFailed
            for what is no event, or too large.
        """
        for data in self._lines():
            try:
                line = msgspec.json.decode(data, type=Line)
                fields = msgspec.json.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise ProgramFailed(f"the program wrote what is no event: {error}") from None
            self._pass_on(line, fields)

    def _lines(self) -> Iterator[bytes]:
        path = self._folder / EVENTS
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ProgramFailed(f"{EVENTS} of the program is no regular file")
                file.seek(self._read)
                data = file.read(EVENTS_BYTES - self._read + 1)
            self._read += len(data)
            if self._read > EVENTS_BYTES:
                raise ProgramFailed(f"the program wrote more than {EVENTS_BYTES:,} bytes of events")
            *lines, self._rest = (self._rest + data).split(b"\n")
            if max(map(len, [*lines, self._rest])) > LINE_BYTES:
                raise ProgramFailed(f"the program wrote a line of more than {LINE_BYTES:,} bytes")
            yield from lines

    def _pass_on(self, line: Line, fields: dict[str, object]) -> None:
        self.steps = max(self.steps, line.steps)
        if line.event == "first_step":
            self.first_step_ns = self.first_step_ns or line.ns
            self._recorder.first_step(line.ns)
        elif line.event == "episode":
            self._recorder.episode(line.ns, line.episode_return, line.length, line.steps)
        elif line.event == "snapshot":
            self._take(line.file)
            self._recorder.snapshot_file(line.ns, line.steps, line.version, line.file)
        else:
            rest = {name: value for name, value in fields.items() if name not in ("event", "ns")}
            self._recorder.event(line.event, line.ns, **rest)

    def _take(self, file: str) -> None:
        """Move a snapshot to the run's folder."""
        if not PLACE.fullmatch(file):
            raise ProgramFailed(f"the program names a snapshot {file!r}; a file below {SNAPSHOTS}/ is wanted")
        source, target = self._folder / file, self._recorder.directory / file
        try:
            status = source.lstat()
        except FileNotFoundError:
            raise ProgramFailed(f"the program names a snapshot {file} that is not there, or twice") from None
        if not stat.S_ISREG(status.st_mode) or status.st_size > SNAPSHOT_BYTES:
            raise ProgramFailed(f"snapshot {file} of the program is no regular file of at most {SNAPSHOT_BYTES:,} bytes")
        if target.exists():
            raise ProgramFailed(f"the program names snapshot {file} twice")
        source.rename(target)
