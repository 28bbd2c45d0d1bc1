"""Settings of this process."""

import ctypes
import subprocess
import sys
from pathlib import Path

from programs.process import adopting_orphans  # noqa: F401 (used by the program below)

PR_GET_CHILD_SUBREAPER = 37


def adopts():
    value = ctypes.c_int(-1)
    assert ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0) == 0
    return bool(value.value)


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import test_process as t
assert not t.adopts()
with t.adopting_orphans():
    assert t.adopts()
assert not t.adopts()
"""


def test_orphans_are_adopted_for_a_while():
    """In a process of its own, as a test must not change the one that runs it."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(Path(__file__).parent)], timeout=60, check=False)
    assert done.returncode == 0
