"""Runs cells in fresh processes, in parallel if a measurement has several."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.efficiency.cases import Cell
from benchmarks.efficiency.cell import READY
from programs.child import Child, ChildFailed
from tianji.launch.children import ONE_THREAD

ROOT = Path(__file__).parent.parent.parent
SETUP_S = 120.0
"""A cell must be ready by then."""
LIMIT_S = 180.0
"""Seconds after its window in which a cell must have reported."""
CellFailed = ChildFailed
"""A cell ended without a result, or took too long."""


def fresh(cells: Sequence[Cell]) -> dict[str, Any]:
    """Measure these cells at the same time; what they tell, together. Their sockets lie in a folder of their own.

    Raises
    ------
    CellFailed
        when one of them does not tell anything. Nothing is left running then, nor after Ctrl-C.
    """
    with tempfile.TemporaryDirectory(prefix="tj") as folder, ExitStack() as stack:
        environment = {**os.environ, **ONE_THREAD, "TMPDIR": folder}
        children = []
        for cell in cells:
            command = [sys.executable, "-m", "benchmarks.efficiency.cell", msgspec.json.encode(cell).decode(), str(os.getpid())]
            children.append(stack.enter_context(Child(f"{cell.side} {cell.part}", command, cwd=ROOT, env=environment)))
        for child in children:
            if child.answer(SETUP_S) != READY:
                raise CellFailed(f"{child.name}: said something else than that it is ready")
        for child in children:
            child.ask("go")
        told: dict[str, Any] = {}
        for cell, child in zip(cells, children, strict=True):
            told |= child.answer(cell.warmup_s + cell.seconds + LIMIT_S)
        return told
