"""Processes on this host: children of the launcher, watched by their descriptors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence

from tianji import held
from tianji.launch.crew import Crew
from tianji.launch.leftovers import Leftovers
from tianji.launch.node import Node

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
"""One thread for each process, because thread pools of several roles would compete for the cores."""
PARTING_S = 4.0
"""Seconds that processes may take to end after their final reports."""


class Children(Crew):
    """Children of this process.

    Parameters
    ----------
    env
        environment that they step, as settings name it.
    """

    def __init__(self, env: str = "") -> None:
        self._env = env
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._pidfds: dict[str, int] = {}
        self._leftovers = Leftovers()

    def spawn(self, name: str, command: Sequence[str], assignment: bytes, node: Node | None = None) -> None:
        """Start `python -m COMMAND`, on `node` if there is one, with the assignment on its standard input."""
        inherits, variables = held.inherited(self._env)
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdin=subprocess.PIPE,
            stdout=2,  # Whatever a library prints goes to our stderr; sys.stderr may be no file at all (a notebook).
            env={**os.environ, **ONE_THREAD, **self._leftovers.mark, **variables},
            pass_fds=inherits,
            preexec_fn=None if node is None else node.enter,
        )
        for descriptor in inherits:
            os.close(descriptor)
        self._processes[name] = process
        self._pidfds[name] = os.pidfd_open(process.pid)
        assert process.stdin is not None
        try:
            process.stdin.write(assignment)
            process.stdin.close()
        except BrokenPipeError:
            # It has ended already, which is noticed like any other end.
            process.stdin = None

    @property
    def descriptors(self) -> list[int]:
        return list(self._pidfds.values())

    def ended(self) -> list[tuple[str, str, bool]]:
        gone = []
        for name, process in self._processes.items():
            if name in self._pidfds and (status := process.poll()) is not None:
                os.close(self._pidfds.pop(name))
                gone.append((name, f"status {status}", status >= 0))
        return gone

    def kill(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGKILL)

    def end(self, orderly: Collection[str]) -> Collection[str]:
        for name, process in self._processes.items():
            if name not in orderly:
                process.send_signal(signal.SIGKILL)
        late, deadline = [], time.monotonic() + PARTING_S
        for name, process in self._processes.items():
            try:
                process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                late.append(name)
                process.kill()
                process.wait()
        while self._pidfds:
            os.close(self._pidfds.popitem()[1])
        self._leftovers.end()
        return late
