"""The check of /dev/shm after each test: it finds our files and ignores those of other programs."""

import subprocess
import sys

import pytest
import shared_memory

# One after the other: each sees what the other leaves behind on purpose.
pytestmark = pytest.mark.xdist_group("leaks")

HOLD = "import sys; file = open(sys.argv[1], 'w'); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def place(tmp_path):
    found = shared_memory.PLACE / f"tianji-test-{tmp_path.parent.parent.name}-{tmp_path.name}"
    yield found
    found.unlink(missing_ok=True)


def found(place, before):
    """Whether this file is among what was left behind. Files of tests that run beside this one may be unheld for a moment."""
    return place.name in shared_memory.left_behind(before)


def test_what_nobody_holds_any_more_and_what_this_process_holds_is_found(place, monkeypatch):
    monkeypatch.setattr(shared_memory, "GONE_WITHIN_S", 0.2)
    before = shared_memory.names()
    assert not found(place, before)
    place.write_bytes(b"leaked")
    assert found(place, before)
    with place.open("rb"):
        assert found(place, before)
    place.unlink()
    assert not found(place, before)


def test_what_another_program_holds_is_not_ours(place, monkeypatch):
    monkeypatch.setattr(shared_memory, "GONE_WITHIN_S", 0.2)
    before = shared_memory.names()
    command = [sys.executable, "-c", HOLD, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        assert not found(place, before)
        other.stdin.close()
    assert found(place, before)
