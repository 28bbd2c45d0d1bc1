"""Child process that answers requests, one line of JSON each, over its standard input and output."""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

GRACE_S = 15.0
"""Seconds that a child has to end in order when asked."""


class ChildFailed(RuntimeError):
    """A child gave no answer; the text is one line that says why, if the child said so itself."""


class Child:
    """Child process that answers requests. It is a context manager that ends the child.

    The child's standard error is kept for `ChildFailed`. If the block is left by an exception, the child is terminated.
    Otherwise its input is closed, which tells it that there are no more requests.

    Parameters
    ----------
    name
        as it is called in messages.

    Raises
    ------
    ChildFailed
        when it cannot be started.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        pipe = subprocess.PIPE
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._errors, cwd=cwd, env=env, bufsize=0)
        except OSError as error:
            self._errors.close()
            raise ChildFailed(f"{name}: {error}") from error
        self._text = b""

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def ask(self, question: Any) -> None:
        """Ask; `answer` has what comes of it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
        except BrokenPipeError:
            raise self._failed() from None

    def answer(self, limit_s: float) -> Any:
        """The next answer.

        Raises
        ------
        ChildFailed
            if it ends first, or does not answer within `limit_s` seconds.
        """
        assert self._process.stdout is not None
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._text:
            if not select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise ChildFailed(f"{self.name}: said nothing within {limit_s:.0f} s")
            part = self._process.stdout.read(1 << 16)
            if not part:
                raise self._failed()
            self._text += part
        line, _, self._text = self._text.partition(b"\n")
        return json.loads(line)

    def _failed(self) -> ChildFailed:
        """Why it ended, in its own words."""
        self._process.kill()
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return ChildFailed(f"{self.name}: {lines[-1] if lines else f'ended with status {status}'}")

    def close(self) -> None:
        """Tell it that there are no more questions, and see to it that it ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            self._process.terminate()
        self.close()
