"""Processes that do nothing but compute, for a while: what budgets are measured with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO

from tianji.launch.children import ONE_THREAD
from tianji.launch.node import Node

READY = b"r"


def loop() -> list[str]:
    """A program for `Busy` that starts quickly and does nothing of use."""
    code = (
        "import os, sys; sys.stdout.write('r'); sys.stdout.flush(); sys.stdin.read(1)\n"
        f"while os.getppid() == {os.getpid()}: sum(range(10_000))"
    )
    return [sys.executable, "-I", "-S", "-c", code]


class Busy:
    """Processes of one thread that are ready to compute and do so when they are told; a context manager.

    Parameters
    ----------
    places
        one for each process.
    program
        says `READY` on its standard output, and begins when it is sent a byte.

    Raises
    ------
    RuntimeError
        when one does not start.
    """

    def __init__(self, places: Sequence[Node], program: Sequence[str]) -> None:
        self._waiting: list[IO[bytes]] = []
        with ExitStack() as stack:
            processes = []
            for place in places:
                process = place.popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **ONE_THREAD})
                stack.enter_context(process)
                stack.callback(process.kill)
                processes.append(process)
            for process in processes:
                assert process.stdin is not None
                assert process.stdout is not None
                if process.stdout.read(1) != READY:
                    raise RuntimeError(f"a process that was to keep a node busy ended with status {process.wait()}")
                self._waiting.append(process.stdin)
            self._processes = stack.pop_all()

    def begin(self) -> None:
        """Let them compute, until `close`."""
        for pipe in self._waiting:
            pipe.write(READY)
            pipe.flush()
        self._waiting = []

    def close(self) -> None:
        """End them."""
        self._processes.close()

    def __enter__(self) -> Busy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
