"""Runs on this machine: one host process under a keeper, in its own session, watched until all its processes have ended."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from programs import cores
from suites.records.events import Usage
from suites.testbed.meter import INTERVAL_S, TreeMeter

SETUP_LIMIT_S = 180.0
TEARDOWN_LIMIT_S = 60.0


@dataclass(frozen=True)
class Outcome:
    """How a host process ended."""

    exit_status: int | None
    """None when it was killed for running out of time."""
    usage: list[Usage]
    tail: str
    """Last lines of what it printed."""


def run(command: Sequence[str], directory: Path, limit_s: float, watch: Callable[[], None]) -> Outcome:
    """Run one host process to its end, and end all its processes in any case (see `suites.testbed.keeper`).

    Parameters
    ----------
    command
        is given the folder and the process id of its parent.
    directory
        an existing folder for the run's record.
    limit_s
        that it may take, beside set-up and teardown.
    watch
        is called once or twice a second meanwhile.
    """
    log = directory / "output.log"
    limit = time.monotonic() + SETUP_LIMIT_S + limit_s + TEARDOWN_LIMIT_S
    reaped = _cpu_of_reaped()
    lifeline, ours = os.pipe()
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "suites.testbed.keeper", str(lifeline), *command, str(directory)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lifeline,),
                env={
                    **cores.choosing_freely(os.environ),
                    "PYTHONUNBUFFERED": "1",
                    "OMP_NUM_THREADS": "1",
                    "OPENBLAS_NUM_THREADS": "1",
                },
            )
    finally:
        os.close(lifeline)
    meter = TreeMeter(process.pid)
    usage: list[Usage] = [meter.sample()]
    waiting = os.pidfd_open(process.pid)
    in_time = True
    try:
        while not wait([waiting], INTERVAL_S):
            usage.append(meter.sample())
            watch()
            if time.monotonic() > limit:
                in_time = False
                break
    finally:
        os.close(ours)  # Whatever the reason: the keeper ends what is left, and then itself.
        process.wait()
        os.close(waiting)
    # What the kernel counted, now that all are gone: samples miss the last moments of a process.
    total = max(_cpu_of_reaped() - reaped, usage[-1].cpu_s)
    usage.append(Usage(time.monotonic_ns(), total, 0))
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return Outcome(process.returncode if in_time else None, usage, "\n".join(lines[-20:]))


def _cpu_of_reaped() -> float:
    """CPU seconds of all processes below this one that have ended and been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
