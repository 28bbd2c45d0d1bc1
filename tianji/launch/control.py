"""The socket that a run's processes report to."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import zmq

from tianji.channel.security import Keys, Security
from tianji.channel.zmq import address


@contextmanager
def control_socket() -> Iterator[tuple[zmq.Socket[bytes], str]]:
    """The socket at BASE/control that processes of this host report to, and BASE: `ipc://` and a private directory, for
    other sockets.
    """
    with ExitStack() as stack:
        directory = stack.enter_context(private_folder())
        context: zmq.Context[zmq.Socket[bytes]] = stack.enter_context(zmq.Context())
        control = stack.enter_context(_router(context))
        control.bind(f"ipc://{directory}/control")
        yield control, f"ipc://{directory}"


@contextmanager
def tcp_control_socket(host: str, keys: Keys | None) -> Iterator[tuple[zmq.Socket[bytes], str]]:
    """The socket that processes of several hosts report to, and its address there.

    Parameters
    ----------
    host
        this host's address, as the others see it.
    keys
        of the run; None: what is said can be read and changed on the way.
    """
    with ExitStack() as stack:
        context: zmq.Context[zmq.Socket[bytes]] = stack.enter_context(zmq.Context())
        security = Security(context, keys, plaintext=keys is None)
        stack.callback(security.close)
        control = stack.enter_context(_router(context))
        uri = f"tcp://{host}:0"
        security.bind_side(control, uri)
        control.bind(uri)
        yield control, address(control)


def _router(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    control: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    control.setsockopt(zmq.LINGER, 0)
    control.setsockopt(zmq.RCVHWM, 0)
    return control


@contextmanager
def private_folder() -> Iterator[str]:
    """A folder for sockets, which nobody else can enter: it goes with its context."""
    directory = tempfile.mkdtemp(prefix="tianji-", dir=_short_temporary_directory())
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _short_temporary_directory() -> str | None:
    """A socket's path must fit in `zmq.IPC_PATH_MAX_LEN` bytes; a long TMPDIR gives way to /tmp."""
    return "/tmp" if len(tempfile.gettempdir()) + 40 > zmq.IPC_PATH_MAX_LEN else None
