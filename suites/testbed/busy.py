"""Processes that compute for a while, by which budgets of cores are measured."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tianji.launch.children import ONE_THREAD
from tianji.launch.node import Node

READY = b"r"


@contextmanager
def busy(places: Sequence[Node]) -> Iterator[Callable[[], None]]:
    """Processes of one thread, one for each place, that are ready to compute; they end when the block is left.

    Yields
    ------
    what lets them compute.

    Raises
    ------
    RuntimeError
        when one does not start.
    """
    code = (
        "import os, sys; sys.stdout.write('r'); sys.stdout.flush(); sys.stdin.read(1)\n"
        f"while os.getppid() == {os.getpid()}: sum(range(10_000))"
    )
    # Without `site`, it starts quickly.
    program, pipe = [sys.executable, "-I", "-S", "-c", code], subprocess.PIPE
    with ExitStack() as stack:
        processes = []
        for place in places:
            process = place.popen(program, stdin=pipe, stdout=pipe, bufsize=0, env={**os.environ, **ONE_THREAD})
            stack.enter_context(process)
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            if process.stdout.read(1) != READY:
                raise RuntimeError(f"a process that was to keep a node busy ended with status {process.wait()}")

        def begin() -> None:
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(READY)

        yield begin
