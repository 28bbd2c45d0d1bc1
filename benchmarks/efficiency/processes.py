"""Cells in fresh processes, at the same time where a measurement has several."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.efficiency.cases import Cell
from benchmarks.efficiency.cell import READY
from tianji.launch.children import ONE_THREAD

ROOT = Path(__file__).parent.parent.parent
SETUP_S = 120.0
"""A cell must be ready by then."""
LIMIT_S = 180.0
"""And have measured so long after its window."""
GRACE_S = 15.0
"""In which a cell that is asked to end does so in order."""


class CellFailed(RuntimeError):
    """A cell ended without a result, or took too long."""


def fresh(cells: Sequence[Cell]) -> dict[str, Any]:
    """Measure these cells at the same time; what they tell, together.

    Raises
    ------
    CellFailed
        when one of them does not tell anything; its own words are on stderr. Nothing is left running then, nor after Ctrl-C.
    """
    with tempfile.TemporaryDirectory(prefix="tj") as folder, ExitStack() as stack:
        processes = [stack.enter_context(process(cell, folder)) for cell in cells]
        for started in processes:
            if _line(started, SETUP_S) != READY:
                raise CellFailed("a cell said something else than that it is ready")
        for started in processes:
            assert started.stdin is not None
            started.stdin.write(b"go\n")
        told: dict[str, Any] = {}
        for cell, started in zip(cells, processes, strict=True):
            told |= json.loads(_line(started, cell.warmup_s + cell.seconds + LIMIT_S))
        return told


@contextmanager
def process(cell: Cell, folder: str) -> Iterator[subprocess.Popen[bytes]]:
    """A cell's process, which is gone afterwards, however it ends; its sockets lie in `folder`."""
    command = [sys.executable, "-m", "benchmarks.efficiency.cell", msgspec.json.encode(cell).decode(), str(os.getpid())]
    environment = {**os.environ, **ONE_THREAD, "TMPDIR": folder}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT, env=environment, bufsize=0) as started:
        try:
            yield started
        except BaseException:
            started.terminate()
            raise
        finally:
            try:
                started.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                # What it has started ends with it.
                started.kill()


def _line(started: subprocess.Popen[bytes], limit_s: float) -> bytes:
    """The next line that a cell says."""
    assert started.stdout is not None
    text, deadline = b"", time.monotonic() + limit_s
    while not text.endswith(b"\n"):
        if not select.select([started.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise CellFailed(f"a cell said nothing within {limit_s:.0f} s")
        part = started.stdout.read(1 << 16)
        if not part:
            raise CellFailed(f"a cell ended with status {started.wait(GRACE_S)} before it had measured")
        text += part
    return text
