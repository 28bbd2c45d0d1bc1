"""Settings of this process."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

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


KEEPING = """
import resource, sys
import numpy as np
from programs.process import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(8 << 20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults())
keep_freed_memory()
faults()
print(faults())
"""


def test_memory_that_is_freed_is_kept_for_the_next_array():
    """In a process of its own. Twenty arrays of 8 MiB are 40,960 pages, or fewer where the kernel has large ones."""
    if getattr(ctypes.CDLL(None), "mallopt", None) is None:
        pytest.skip("this C library has no mallopt")
    done = subprocess.run([sys.executable, "-c", KEEPING], timeout=60, check=True, capture_output=True, text=True)
    before, after = map(int, done.stdout.split())
    assert before >= 20
    assert after < before / 4
