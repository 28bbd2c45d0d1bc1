"""A trial: one short training of a system in its host process, observed from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import msgspec
import psutil

import baselines
from baselines.conformance.counted import counted_cartpole
from baselines.recording import EVENTS
from baselines.system import System, Task
from programs.process import adopting_orphans

ENV = "counted_cartpole:CountedCartPole-v0"
INTERVAL_S = 0.05
SETUP_S, TEARDOWN_S = 180.0, 60.0
"""Seconds before and after training, as the runner gives them."""
STOP_S = 10.0
"""Seconds to end after a stop request, as the runner's keeper gives them."""
LEAVE_S = 3.0
"""Seconds in which processes that were told to end may still be there after their host."""
CACHES = (".cache", ".config")
"""Entries of a home folder that libraries make for themselves."""
Events = list[dict[str, Any]]


@dataclass
class Observation:
    """What was seen of a trial."""

    status: int | None = None
    """Exit status of the host process; None if it was killed because its time was over."""
    last_line: str = ""
    events: Events = field(default_factory=list)
    counted: int = 0
    """Environment steps by the environments' own count."""
    foreign_cores: set[int] = field(default_factory=set)
    """Cores beside those of the task on which a thread was allowed to run."""
    stopped_after_s: float | None = None
    """Seconds from the stop request to the end."""
    processes_left: list[str] = field(default_factory=list)
    files_left: list[str] = field(default_factory=list)


def observe(system: System, task: Task, folder: Path, stop_when: Callable[[Events], bool] | None = None) -> Observation:
    """Train a task and observe it. Everything that the run leaves behind is ended and noted.

    Parameters
    ----------
    folder
        an empty folder; the run's own is `run` in it.
    stop_when
        when to ask the host to stop, as the runner does: by SIGTERM. It gets the events on disk.
    """
    seen = Observation()
    run, counts, elsewhere, home = (folder / name for name in ("run", "counts", "elsewhere", "home"))
    for made in (run, counts, elsewhere, home):
        made.mkdir()
    (run / "task.json").write_bytes(msgspec.json.encode(task))
    others = {process.pid for process in psutil.Process().children(recursive=True)}
    with ExitStack() as stack:
        stack.enter_context(adopting_orphans())
        # Sockets lie in it, and a socket's path must stay short. The runner's keeper removes it after a run, too.
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="tj-", dir="/tmp", ignore_cleanup_errors=True))
        path = [str(Path(counted_cartpole.__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        path.append(str(Path(baselines.__file__).parents[1]))
        output = stack.enter_context((folder / "output.log").open("wb"))
        begun = time.time()
        host = subprocess.Popen(
            [*system.interpreter(), "-m", "baselines.run", str(run), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=elsewhere,
            env={
                **os.environ,
                counted_cartpole.COUNTS: str(counts),
                "HOME": str(home),
                "TMPDIR": temporary,
                "PYTHONPATH": os.pathsep.join(filter(None, path)),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
            },
            start_new_session=True,
        )
        sightings = _Sightings((str(folder), temporary), task.cores)
        try:
            _watch(host, task, run, seen, sightings, others, stop_when)
        finally:
            _end(host, seen, others)
    seen.events = events_of(run)
    seen.counted = counted_cartpole.counted(counts)
    seen.foreign_cores = sightings.foreign_cores
    seen.files_left = [str(path.relative_to(folder)) for path in sorted(elsewhere.iterdir())]
    seen.files_left += [str(path.relative_to(folder)) for path in sorted(home.iterdir()) if path.name not in CACHES]
    seen.files_left += sightings.still_there(begun)
    lines = (folder / "output.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    seen.last_line = lines[-1] if lines else ""
    return seen


def events_of(run: Path) -> Events:
    """Whole lines of a run's events."""
    path = run / EVENTS
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def _watch(
    host: subprocess.Popen[bytes],
    task: Task,
    run: Path,
    seen: Observation,
    sightings: _Sightings,
    others: set[int],
    stop_when: Callable[[Events], bool] | None,
) -> None:
    """Look at a trial until its host has ended or its time is over."""
    limit = time.monotonic() + SETUP_S + task.workload.budget_seconds + TEARDOWN_S
    asked_at: float | None = None
    size = 0
    ended = os.pidfd_open(host.pid)
    try:
        while not wait([ended], INTERVAL_S):
            now = time.monotonic()
            if now > limit or (asked_at is not None and now - asked_at > STOP_S):
                return
            latest = (run / EVENTS).stat().st_size if (run / EVENTS).exists() else 0
            # Its first event comes after the host has chosen its cores.
            if latest:
                sightings.look([p for p in psutil.Process().children(recursive=True) if p.pid not in others])
            if asked_at is None and stop_when is not None and latest != size and stop_when(events_of(run)):
                host.send_signal(signal.SIGTERM)
                asked_at = time.monotonic()
            size = latest
        seen.status = host.wait()
        if asked_at is not None:
            seen.stopped_after_s = time.monotonic() - asked_at
    finally:
        os.close(ended)


def _end(host: subprocess.Popen[bytes], seen: Observation, others: set[int]) -> None:
    """Note the processes that are left, and end them."""
    if host.poll() is None:
        host.kill()
        host.wait()
    own = psutil.Process()
    left = [process for process in own.children(recursive=True) if process.pid not in others]
    _, left = psutil.wait_procs(left, timeout=LEAVE_S)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            seen.processes_left.append(process.name())
            process.kill()
    psutil.wait_procs(left, timeout=LEAVE_S)


class _Sightings:
    """Cores that threads may use, and files in shared places that processes have open, by looking from time to time."""

    def __init__(self, own: tuple[str, ...], cores: tuple[int, ...]) -> None:
        self._own, self._cores = own, set(cores)
        self._shared = ("/dev/shm/", f"{tempfile.gettempdir()}/")
        self._files: set[str] = set()
        self.foreign_cores: set[int] = set()

    def look(self, processes: list[psutil.Process]) -> None:
        """Look at these processes now; those that have ended meanwhile are passed over."""
        for process in processes:
            root = Path("/proc", str(process.pid))
            with suppress(OSError):
                for thread in (root / "task").iterdir():
                    self.foreign_cores |= os.sched_getaffinity(int(thread.name)) - self._cores
                for descriptor in (root / "fd").iterdir():
                    with suppress(OSError):
                        self._note(os.readlink(descriptor))
                for line in (root / "maps").read_text(errors="replace").splitlines():
                    parts = line.split(maxsplit=5)
                    if len(parts) == 6:
                        self._note(parts[5])

    def _note(self, file: str) -> None:
        if file.startswith(self._shared) and not file.startswith(self._own):
            self._files.add(file)

    def still_there(self, begun: float) -> list[str]:
        """Those of the files that are there, and were made since a time."""
        found = []
        for file in sorted(self._files):
            with suppress(OSError):
                if os.lstat(file).st_ctime >= begun:
                    found.append(file)
        return found


def played(command: list[str], file: Path, episodes: int) -> list[float]:
    """Returns that a system's player gives for a snapshot.

    Raises
    ------
    ValueError, OSError, subprocess.SubprocessError
        when it does not play.
    """
    with tempfile.TemporaryDirectory(prefix="tj-player-") as folder:
        arguments = [*command, str(file), ENV, "1", str(episodes)]
        path = [str(Path(counted_cartpole.__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        done = subprocess.run(arguments, capture_output=True, cwd=folder, env=env, timeout=SETUP_S, check=True)
    returns = msgspec.json.decode((done.stdout.strip().splitlines() or [b""])[-1], type=list[float])
    if len(returns) != episodes:
        raise ValueError(f"it printed {len(returns)} returns for {episodes} episodes")
    return returns
