"""Shared memory of other processes."""

import os
import subprocess
import sys

from tianji.channel.arena import has_ended


def test_a_process_that_nobody_has_collected_has_ended():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not has_ended(child.pid)
        assert not has_ended(os.getpid())
        child.kill()
        # It stays as a zombie, whose folder in /proc is still there.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert os.path.exists(f"/proc/{child.pid}")
        assert has_ended(child.pid)
    finally:
        child.kill()
        child.communicate(timeout=30)
    assert has_ended(child.pid)
