"""A revision of this project with an environment of its own, and the process in which its parts are measured."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from suites.components.worker import PROTOCOL
from tianji.launch.children import ONE_THREAD

START_S = 120.0
"""In which a worker must have imported everything."""
GRACE_S = 10.0
"""In which one that is asked to end does so."""


class RevisionFailed(RuntimeError):
    """A revision cannot be measured; the text says which, and what it said itself."""


class Revision(NamedTuple):
    """Where a revision is."""

    name: str
    """As it is called in messages."""
    python: str
    """Interpreter of its environment."""
    tree: Path
    """Its checkout; it is where its processes run."""
    worker: tuple[str, ...] = ("-m", "suites.components.worker")

    def environment(self) -> dict[str, str]:
        """Variables of its processes: no other revision's modules, one thread, the same hashes in each."""
        own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        return {**own, **ONE_THREAD, "PYTHONHASHSEED": "0"}


class Worker:
    """A process that measures parts of a revision; a context manager that ends it.

    Raises
    ------
    RevisionFailed
        when it cannot be started, also where the revision has no such worker yet.
    """

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        command = [revision.python, *revision.worker, str(os.getpid())]
        pipe = subprocess.PIPE
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        try:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self._errors, cwd=revision.tree, env=revision.environment(), bufsize=0
            )
        except OSError as error:
            self._errors.close()
            raise RevisionFailed(f"{revision.name}: {error}") from error
        self._text = b""

    def hello(self) -> dict[str, Any]:
        """What it says of itself."""
        found = self.answer(START_S)
        if found.get("protocol") != PROTOCOL:
            raise RevisionFailed(f"{self.revision.name}: speaks protocol {found.get('protocol')} of its parts, not {PROTOCOL}")
        if Path(found["tree"]).resolve() != self.revision.tree.resolve():
            # An interpreter in which another checkout is installed would measure that one.
            raise RevisionFailed(f"{self.revision.name}: its interpreter runs {found['tree']}, not {self.revision.tree}")
        return found

    def ask(self, question: dict[str, Any]) -> None:
        """Ask; `answer` has what comes of it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
        except BrokenPipeError:
            raise RevisionFailed(f"{self.revision.name}: {self._last_words()}") from None

    def answer(self, limit_s: float) -> dict[str, Any]:
        """The next answer."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._text:
            if not select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise RevisionFailed(f"{self.revision.name}: said nothing within {limit_s:.0f} s")
            part = self._process.stdout.read(1 << 16)
            if not part:
                raise RevisionFailed(f"{self.revision.name}: {self._last_words()}")
            self._text += part
        line, _, self._text = self._text.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise RevisionFailed(f"{self.revision.name}: {found['error']}")
        return found

    def _last_words(self) -> str:
        """Why it ended, in its own words."""
        self._process.kill()
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"its worker ended with status {status}"

    def close(self) -> None:
        """End it."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            self._process.kill()
        self.close()
