"""Processes that compute for a while, by which budgets of cores and the speed of nodes are measured."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tianji.launch.children import ONE_THREAD
from tianji.launch.node import Node

READY = b"r"
LOOP_S = 4.0
"""Seconds in which loops are counted: hundreds of periods of a quota, so that the first and the last one hardly matter."""
START_S = 0.125
"""Seconds before, in which what is left of a quota from earlier is used up."""
ANSWER_S = 30.0
"""Seconds after which a process that counts loops is taken for dead."""

UNTIL_ORPHANED = "while os.getppid() == {parent}: sum(range(10_000))"
COUNTED = """
def loops(seconds):
    begun, done = time.monotonic(), 0
    while (now := time.monotonic()) < begun + seconds:
        sum(range(1_000))
        done += 1
    return done / (now - begun)
loops({start})
print(loops({seconds}))
"""


@contextmanager
def _ready(places: Sequence[Node], code: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of one thread, one for each place, that run the code at a byte to their input, and end with the block.

    Raises
    ------
    RuntimeError
        when one does not start.
    """
    code = f"import os, sys, time; sys.stdout.write('r'); sys.stdout.flush(); sys.stdin.read(1)\n{code}"
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
        yield processes


def _begin(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(READY)


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
    with _ready(places, UNTIL_ORPHANED.format(parent=os.getpid())) as processes:
        yield lambda: _begin(processes)


def loops_per_s(places: Sequence[Node]) -> list[float]:
    """Speed of each place by a bare loop, all places at once: loops a second of the wall clock, so a budget shows too.

    Raises
    ------
    RuntimeError
        when a process does not start, or does not answer.
    """
    with _ready(places, COUNTED.format(start=START_S, seconds=LOOP_S)) as processes:
        _begin(processes)
        try:
            return [float(process.communicate(timeout=ANSWER_S)[0]) for process in processes]
        except (subprocess.TimeoutExpired, ValueError) as error:
            raise RuntimeError("a process that was to measure a node's speed gave no answer") from error
