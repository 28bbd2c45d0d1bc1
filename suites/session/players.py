"""Plays a snapshot with its system's player, a command whose output is not trusted.

It must be called in a process that has no other children and adopts orphans, such as one that evaluates snapshots: everything
below that process is ended after each play.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from programs.characters import one_line
from programs.process import die_with_parent
from suites.records import limits
from suites.records.limits import BundleError, Number
from suites.testbed.keeper import end_tree

LIMIT_S = 300.0
"""Most seconds for the episodes of one snapshot."""
OUTPUT_BYTES = limits.MEBIBYTE
"""Most that a player may print."""
SNAPSHOT_BYTES = 1024 * limits.MEBIBYTE
"""Largest snapshot."""
Returns = Annotated[list[Number], Meta(max_length=10_000)]


class PlayerFailed(Exception):
    """A player did not play; the text is one line that says why."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text)[:500])


def play(command: Sequence[str], file: Path, env: str, first_seed: int, episodes: int, limit_s: float = LIMIT_S) -> list[float]:
    """Returns of the greedy episodes that a player played, one from each seed.

    Raises
    ------
    PlayerFailed
        if the snapshot is no regular file, or the player does not start, fails, takes too long, or prints something else than
        one finite number for each episode.
    """
    what = f"player of {file.name}"
    try:
        with limits.opened(file, SNAPSHOT_BYTES):
            pass
    except BundleError as error:
        raise PlayerFailed(str(error)) from None
    with tempfile.TemporaryDirectory(prefix="tj-player-") as folder:
        arguments = [*command, str(file.resolve()), env, str(first_seed), str(episodes)]
        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=folder,
                env={**os.environ, "TMPDIR": folder, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        except OSError as error:
            raise PlayerFailed(f"{what}: {error.strerror}: {command[0]}") from None
        try:
            said, complained = _listen(process, what, limit_s)
            status = process.wait()
        finally:
            process.kill()
            end_tree(process)
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
    if status:
        raise PlayerFailed(f"{what}: ended with status {status}{_last(complained)}")
    try:
        returns = msgspec.json.decode((said.strip().splitlines() or [b""])[-1], type=Returns)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlayerFailed(f"{what}: printed no list of returns as its last line: {error}") from None
    if len(returns) != episodes:
        raise PlayerFailed(f"{what}: printed {len(returns)} returns for {episodes} episodes")
    return returns


def _listen(process: subprocess.Popen[bytes], what: str, limit_s: float) -> tuple[bytes, bytes]:
    """What a process printed until it ended. Processes that it left behind may hold its pipes open."""
    deadline = time.monotonic() + limit_s
    assert process.stdout is not None
    assert process.stderr is not None
    pipes = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    for pipe in pipes:
        os.set_blocking(pipe, False)
    ended = os.pidfd_open(process.pid)
    open_pipes = set(pipes)
    try:
        while True:
            ready = wait([ended, *open_pipes], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise PlayerFailed(f"{what}: had not ended after {limit_s:.0f} s")
            over = ended in ready
            for pipe in list(open_pipes):
                # What is printed is bounded, so this loop ends.
                while part := _part(pipe):
                    pipes[pipe] += part
                    if len(pipes[pipe]) > OUTPUT_BYTES:
                        raise PlayerFailed(f"{what}: printed more than {OUTPUT_BYTES:,} bytes")
                if part == b"":
                    open_pipes.remove(pipe)
            if over:
                said, complained = pipes.values()
                return bytes(said), bytes(complained)
    finally:
        os.close(ended)


def _part(pipe: int) -> bytes | None:
    """Some bytes of a pipe: none at its end, None if there are none yet."""
    try:
        return os.read(pipe, 1 << 16)
    except BlockingIOError:
        return None


def _last(complained: bytes) -> str:
    lines = complained.decode(errors="replace").strip().splitlines()
    return f": {lines[-1]}" if lines else ""
