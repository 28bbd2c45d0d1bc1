"""Control socket of a run, to which its processes report."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import zmq

from tianji.channel.security import Keys, Security
from tianji.channel.zmq import HANDSHAKE_MS, address

REPORT_BYTES = 4 << 20
QUEUE = 1000
"""Most messages of one process that wait at its launcher."""
PREFIX, LOCK = "tj-run-", "lock"
"""Prefix of a launcher's private folder, and name of the locked file in it."""


@contextmanager
def control_socket(parameters: int) -> Iterator[tuple[zmq.Socket[bytes], str]]:
    """Open the control socket for processes of this host, at BASE/control, and return it with BASE.

    BASE is `ipc://` and a private folder, which also serves other sockets.

    Parameters
    ----------
    parameters
        of the network, whose weights are the largest message.
    """
    with ExitStack() as stack:
        directory = stack.enter_context(private_folder())
        context: zmq.Context[zmq.Socket[bytes]] = stack.enter_context(zmq.Context())
        control = stack.enter_context(_router(context, largest_bytes(parameters)))
        control.bind(f"ipc://{directory}/control")
        yield control, f"ipc://{directory}"


@contextmanager
def tcp_control_socket(host: str, keys: Keys | None, parameters: int) -> Iterator[tuple[zmq.Socket[bytes], str]]:
    """Open the control socket for processes of several hosts, and return it with its address.

    Parameters
    ----------
    host
        this host's address, as the other hosts see it.
    keys
        keys of the run. None: anyone on the network can read and change messages.
    parameters
        of the network, whose weights are the largest message.
    """
    with ExitStack() as stack:
        context: zmq.Context[zmq.Socket[bytes]] = stack.enter_context(zmq.Context())
        security = Security(context, keys, plaintext=keys is None)
        stack.callback(security.close)
        uri = f"tcp://{host}:0"
        control = stack.enter_context(_router(context, security.frame_bytes(uri, largest_bytes(parameters))))
        security.bind_side(control, uri)
        control.bind(uri)
        yield control, address(control)


def largest_bytes(parameters: int) -> int:
    """Largest message of a process to its launcher: weights with a header, or a final report with distributions."""
    return 4 * parameters + REPORT_BYTES


def _router(context: zmq.Context[zmq.Socket[bytes]], largest: int) -> zmq.Socket[bytes]:
    control: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    control.setsockopt(zmq.LINGER, 0)
    # A peer that announces more is cut off before memory is allocated. One that sends too much at once has to wait.
    control.setsockopt(zmq.MAXMSGSIZE, largest)
    control.setsockopt(zmq.RCVHWM, QUEUE)
    control.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    # A restarted process has the identity of its predecessor.
    control.setsockopt(zmq.ROUTER_HANDOVER, 1)
    return control


@contextmanager
def private_folder() -> Iterator[str]:
    """Context that gives a private folder for sockets and removes it.

    It also removes folders that killed launchers left behind.
    """
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_short_temporary_directory()))
    with (directory / "new").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        # Under its name it was never free: another launcher that sweeps meanwhile would remove this folder.
        (directory / "new").rename(directory / LOCK)
        _sweep(directory)
        try:
            yield str(directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _sweep(own: Path) -> None:
    """Remove the folders of this user's launchers that have ended, whose locks are free."""
    for lock in own.parent.glob(f"{PREFIX}*/{LOCK}"):
        try:
            if lock.parent == own or lock.parent.stat().st_uid != os.getuid():
                continue
            with lock.open("rb") as left:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # Another process holds it, or is removing it.


def _short_temporary_directory() -> str | None:
    """Temporary directory for sockets. A long TMPDIR is replaced, because paths must fit in `zmq.IPC_PATH_MAX_LEN` bytes."""
    return "/tmp" if len(tempfile.gettempdir()) + 40 > zmq.IPC_PATH_MAX_LEN else None
