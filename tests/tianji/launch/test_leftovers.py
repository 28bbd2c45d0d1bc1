"""Processes that environments leave behind are found by their mark, wherever they went, and others are left alone."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from tianji.launch.leftovers import Leftovers


@contextlib.contextmanager
def start(leftovers, command):
    """A shell, which is killed if the test did not see it end."""
    with subprocess.Popen(
        ["sh", "-c", command], env={**os.environ, **leftovers.mark}, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def adopted():
    """Orphans of the test become its children, so that it can see them end."""
    from programs.process import adopting_orphans

    with adopting_orphans():
        yield


def test_an_orphan_in_a_session_of_its_own_is_ended(adopted):
    mine, others = Leftovers(), Leftovers()
    with start(mine, "setsid sleep 600 & echo $!") as parent, start(others, "sleep 600 & echo $!; wait") as stranger:
        orphan, alive = int(parent.stdout.readline()), int(stranger.stdout.readline())
        parent.wait()
        try:
            assert mine.end() == 1
            assert os.waitpid(orphan, 0)[1] == 9
            assert stranger.poll() is None
            assert others.end() == 2
            stranger.wait()
            os.waitpid(alive, 0)
        except BaseException:
            # Or the pipes of both shells would stay open for as long as they sleep.
            for leftover in (orphan, alive):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(leftover, 9)
            raise


def test_an_orphan_is_found_while_it_starts_a_program(adopted, monkeypatch):
    """In the middle of `execve` a process has no environment. On a full machine one look in ten met that moment."""
    read, seen = Path.read_bytes, []

    def starting(path):
        environment = read(path)
        seen.append(path)
        return b"" if seen.count(path) < 3 else environment

    mine = Leftovers()
    with start(mine, "sleep 600 & echo $!; wait") as parent:
        orphan = int(parent.stdout.readline())
        monkeypatch.setattr(Path, "read_bytes", starting)
        assert mine.end() == 2
        parent.wait()
        os.waitpid(orphan, 0)


def test_helpers_that_end_by_themselves_are_waited_for(adopted):
    mine = Leftovers()
    with start(mine, "sleep 0.1 & echo $!") as parent:
        helper = int(parent.stdout.readline())
        parent.wait()
        begun = time.monotonic()
        while os.waitpid(helper, os.WNOHANG) == (0, 0) and time.monotonic() < begun + 10:
            assert mine.end() == 0
    assert mine.end() == 0
