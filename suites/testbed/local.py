"""This machine: one run is one host process in a process group of its own, watched until nothing of it is left."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from baselines.system import System, Task
from suites.bundle import Usage
from suites.meter import INTERVAL_S, TreeMeter

SETUP_LIMIT_S = 180.0
TEARDOWN_LIMIT_S = 60.0
TERM_GRACE_S = 10.0


@dataclass(frozen=True)
class Outcome:
    """How a host process ended."""

    exit_status: int | None
    """None when it was killed for running out of time."""
    usage: list[Usage]
    tail: str
    """Last lines of what it printed."""


def run(system: System, task: Task, directory: Path, watch: Callable[[], None]) -> Outcome:
    """Run one task to its end; leave no process of it, whatever happens.

    Parameters
    ----------
    directory
        an existing folder for the run's record.
    watch
        is called once or twice a second meanwhile.
    """
    (directory / "task.json").write_bytes(msgspec.json.encode(task))
    log = directory / "output.log"
    before = {child.pid for child in psutil.Process().children()}
    limit = time.monotonic() + SETUP_LIMIT_S + task.workload.budget_seconds + TEARDOWN_LIMIT_S
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*system.interpreter(), "-m", "baselines.host", str(directory), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    reaped = _cpu_of_reaped()
    meter = TreeMeter(process.pid)
    usage: list[Usage] = [meter.sample()]
    waiting = os.pidfd_open(process.pid)
    poll = select.poll()
    poll.register(waiting, select.POLLIN)
    in_time = True
    try:
        while not poll.poll(INTERVAL_S * 1000):
            usage.append(meter.sample())
            watch()
            if time.monotonic() > limit:
                in_time = False
                break
    finally:
        end_tree(process, before)
        os.close(waiting)
    # What the kernel counted, now that all are gone: samples miss the last moments of a process.
    total = max(_cpu_of_reaped() - reaped, usage[-1].cpu_s)
    usage.append(Usage(time.monotonic_ns(), total, 0))
    status = process.returncode if in_time else None
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return Outcome(status, usage, "\n".join(lines[-20:]))


def _cpu_of_reaped() -> float:
    """CPU seconds of all processes below this one that have ended and been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def end_tree(process: subprocess.Popen[bytes], before: set[int]) -> None:
    """End a host process and everything under it: first politely, then for certain.

    Processes whose own parent is gone have become children of this one (see `adopt_orphans`), so they are found too;
    `before` names the children that were here already and are none of the run's.
    """
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(TERM_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    own = psutil.Process()
    while roots := [child for child in own.children() if child.pid not in before]:
        left = [process for root in roots for process in (root, *_below(root))]
        for child in left:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(left, timeout=TERM_GRACE_S)


def _below(root: psutil.Process) -> list[psutil.Process]:
    try:
        return root.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
