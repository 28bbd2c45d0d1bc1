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


def test_what_nobody_holds_any_more_and_what_this_process_holds_is_found(place, monkeypatch):
    monkeypatch.setattr(shared_memory, "GONE_WITHIN_S", 0.2)
    before = shared_memory.names()
    assert shared_memory.left_behind(before) == set()
    place.write_bytes(b"leaked")
    assert shared_memory.left_behind(before) == {place.name}
    with place.open("rb"):
        assert shared_memory.left_behind(before) == {place.name}
    place.unlink()
    assert shared_memory.left_behind(before) == set()


def test_what_another_program_holds_is_not_ours(place, monkeypatch):
    monkeypatch.setattr(shared_memory, "GONE_WITHIN_S", 0.2)
    before = shared_memory.names()
    command = [sys.executable, "-c", HOLD, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        assert shared_memory.left_behind(before) == set()
        other.stdin.close()
    assert shared_memory.left_behind(before) == {place.name}
