"""Keeps one run's processes together: `python -m suites.testbed.keeper LIFELINE COMMAND...`.

It stands between the runner and a host process, because a runner that is killed cannot clean up. It watches both; the end of
the runner closes the lifeline pipe. When either ends, the keeper kills all processes that the run started, and removes its
temporary folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from multiprocessing.connection import wait

import psutil

from programs.process import adopt_orphans, name_process

TERM_GRACE_S = 10.0
"""Seconds from asking the host to end until it is killed."""
LONGEST_TMPDIR = 16
"""Bytes; about 88 more follow in Ray's longest, and 107 is the most that Linux takes."""


def main(lifeline: int, command: list[str]) -> int:
    """Run the command; returns its exit status (negative: the signal that ended it)."""
    # The runner alone decides what an interrupt means; it tells us by closing the lifeline.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    name_process("tj-keeper")
    adopt_orphans()
    # Sockets lie in it, Ray's among them, and a socket's path must stay short.
    folder = tempfile.mkdtemp(prefix="tj-", dir=None if len(tempfile.gettempdir()) <= LONGEST_TMPDIR else "/tmp")
    try:
        host = subprocess.Popen(
            [*command, str(os.getpid())],
            env={**os.environ, "TMPDIR": folder},
            preexec_fn=_hear_signals,
        )
        try:
            wait([lifeline, pidfd := os.pidfd_open(host.pid)])
            os.close(pidfd)
        finally:
            end_tree(host)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return host.returncode


def _hear_signals() -> None:
    """Ignored signals stay ignored in a new program; the host is to be told by them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def end_tree(host: subprocess.Popen[bytes]) -> None:
    """End the host and everything under it: first politely, then for certain.

    A process whose own parent is gone has become a child of this one, so it is found too.
    """
    if host.poll() is None:
        host.send_signal(signal.SIGTERM)
        try:
            host.wait(TERM_GRACE_S)
        except subprocess.TimeoutExpired:
            host.kill()
            host.wait()
    own = psutil.Process()
    while left := own.children(recursive=True):
        for child in left:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(left, timeout=TERM_GRACE_S)


if __name__ == "__main__":
    status = main(int(sys.argv[1]), sys.argv[2:])
    sys.exit(status if status >= 0 else 128 - status)
