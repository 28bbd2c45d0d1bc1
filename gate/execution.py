"""Runs a command in a checkout: with a deadline, with its output in files, and without leaving a process behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import psutil

GRACE_S = 2.0
"""Seconds between asking a command to end and killing it."""
PASSES = 5
"""How often strays are looked for: one that is killed may have started another."""
TAIL_BYTES = 4096
"""How much of the end of a log is searched for the last words of a command."""
MARK = "TIANJI_BENCH_GATE"
"""Environment variable that marks every process of a run, so that none is missed when they are ended."""
NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
"""Variables that would lead both checkouts to the same code, or to the user's own working tree."""


class CommandFailed(Exception):
    """A command gave nothing that can be compared; the text is one line that says which and why."""


class Finished(NamedTuple):
    """A command that ended with status 0."""

    seconds: float
    """Wall-clock time from its start to its end."""
    stdout: Path
    """File with what it printed."""


def environment() -> dict[str, str]:
    """Environment variables of the commands: those of this process, without `NOT_INHERITED`."""
    return {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}


def run(name: str, command: Sequence[str], folder: Path, log: Path, timeout_s: float) -> Finished:
    """Run a command until it ends, then end every process that it left behind.

    Parameters
    ----------
    name
        how messages call the run.
    folder
        its working directory.
    log
        path without suffix: standard output goes to `.out`, standard error to `.err`.
    timeout_s
        seconds after which it is ended.

    Raises
    ------
    CommandFailed
        when it cannot be started, misses its deadline, or ends with a status other than 0.
    """
    token = uuid.uuid4().hex
    stdout, stderr = log.with_name(f"{log.name}.out"), log.with_name(f"{log.name}.err")
    with stdout.open("xb") as out, stderr.open("xb") as err, _ended(token) as started:
        begun = time.perf_counter()
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**environment(), MARK: token},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            raise CommandFailed(f"{name}: {command[0]}: {error.strerror}") from error
        started.append(process)
        in_time = _wait(process, timeout_s)
        seconds = time.perf_counter() - begun
    if not in_time:
        raise CommandFailed(f"{name}: did not end within {timeout_s:g} s")
    if process.returncode != 0:
        status = process.returncode
        how = f"status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"
        raise CommandFailed(f"{name}: ended with {how}: {last_words(stderr, stdout)}")
    return Finished(seconds, stdout)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait for the end of a process; False at the deadline.

    `Popen.wait` with a deadline looks at the clock every few milliseconds. That is too coarse for a command that takes as long.
    """
    descriptor = os.pidfd_open(process.pid)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        if not poller.poll(1000 * timeout_s):
            return False
    finally:
        os.close(descriptor)
    process.wait()
    return True


@contextmanager
def _ended(token: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """End the process that is put into the list, and all that it started, however the block is left."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield started
    finally:
        with undisturbed():
            for process in started:
                _end(process)
            for _ in range(PASSES):
                strays = list(_strays(token))
                for stray in strays:
                    with suppress(psutil.NoSuchProcess):
                        stray.kill()
                if not strays:
                    break
                psutil.wait_procs(strays, timeout=GRACE_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group: politely first where it still runs."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _strays(token: str) -> Iterator[psutil.Process]:
    """Processes of a run that left its process group."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == token:
                yield process


def last_words(*logs: Path) -> str:
    """Last line of the first log that has one."""
    for log in logs:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        if said:
            return said[-1]
    return "it printed nothing"


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put off Ctrl-C and SIGTERM until a clean-up is over.

    Raises
    ------
    KeyboardInterrupt
        at the end, where one of them came meanwhile.
    """
    came: list[int] = []

    def later(number: int, frame: FrameType | None) -> None:
        came.append(number)

    known = {number: signal.signal(number, later) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt
