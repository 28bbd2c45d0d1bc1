"""A revision of this project in its own virtual environment, and the process that measures its parts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from programs.child import Child, ChildFailed
from suites.components.worker import PROTOCOL
from tianji.launch.children import ONE_THREAD

START_S = 120.0
"""Seconds in which a worker must have imported everything."""
RevisionFailed = ChildFailed
"""A revision cannot be measured; the text says which, and what it said itself."""


class Revision(NamedTuple):
    """Location of a revision."""

    name: str
    """Name in messages."""
    python: str
    """Interpreter of its environment."""
    tree: Path
    """Its checkout, in which its processes run."""
    worker: tuple[str, ...] = ("-m", "suites.components.worker")

    def environment(self) -> dict[str, str]:
        """Variables of its processes: no other revision's modules, one thread, the same hashes in each."""
        own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        return {**own, **ONE_THREAD, "PYTHONHASHSEED": "0"}


class Worker(Child):
    """A process that measures parts of a revision.

    Raises
    ------
    RevisionFailed
        when it cannot be started, also where the revision has no such worker yet.
    """

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        command = [revision.python, *revision.worker, str(os.getpid())]
        super().__init__(revision.name, command, cwd=revision.tree, env=revision.environment())

    def hello(self) -> dict[str, Any]:
        """Self-description of the worker."""
        found = self.answer(START_S)
        if found.get("protocol") != PROTOCOL:
            raise RevisionFailed(f"{self.name}: speaks protocol {found.get('protocol')} of its parts, not {PROTOCOL}")
        if Path(found["tree"]).resolve() != self.revision.tree.resolve():
            # An interpreter in which another checkout is installed would measure that one.
            raise RevisionFailed(f"{self.name}: its interpreter runs {found['tree']}, not {self.revision.tree}")
        return found

    def answer(self, limit_s: float) -> dict[str, Any]:
        found: dict[str, Any] = super().answer(limit_s)
        if "error" in found:
            raise RevisionFailed(f"{self.name}: {found['error']}")
        return found
