"""Folders of sockets: private, and gone with their launcher, however it ended."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq

from tianji.channel.security import Keys, Security
from tianji.channel.zmq import Control
from tianji.launch import control

HOLD = """
import sys
from tianji.launch.control import private_folder
with private_folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(monkeypatch):
    """A temporary directory of its own; short, for it holds sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_what_a_killed_launcher_left_goes_with_the_next_one(place):
    def begun():
        child = subprocess.Popen(
            [sys.executable, "-c", HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(place)},
            text=True,
        )
        return child, Path(child.stdout.readline().strip())

    (killed, left), (alive, used) = begun(), begun()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert left.is_dir()
    with control.private_folder() as own:
        assert not left.exists()
        assert used.is_dir()
        assert Path(own).stat().st_mode & 0o077 == 0
    assert not Path(own).exists()
    alive.communicate("")
    assert not used.exists()


def test_a_folder_that_is_being_made_is_not_taken_for_one_left_behind(place, monkeypatch):
    """Another launcher sweeps just before this one has its lock: two runs that begin together did that."""
    lock = fcntl.flock

    def swept(file, how):
        if how == fcntl.LOCK_EX:
            control._sweep(place / "another")
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", swept)
    with control.private_folder() as own:
        assert Path(own).is_dir()
        control._sweep(place / "another")
        assert [path.name for path in Path(own).iterdir()] == [control.LOCK]


def test_a_message_that_is_too_large_is_cut_off_before_it_is_there(place):
    with control.control_socket(1000) as (launcher, base), zmq.Context() as context:
        stranger, role = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
        for one in (stranger, role):
            one.linger = 0
            one.connect(f"{base}/control")
        role.send(b"x" * control.largest_bytes(1000))
        assert launcher.poll(5000)
        assert len(launcher.recv_multipart()[1]) == control.largest_bytes(1000)
        stranger.send(b"x" * (control.largest_bytes(1000) + 1))
        role.send(b"still here")
        assert launcher.poll(5000)
        assert launcher.recv_multipart()[1] == b"still here"
        assert not launcher.poll(200)
        stranger.close(), role.close()
    assert os.listdir(place) == []


@pytest.mark.parametrize("keys", [None, Keys.generate()], ids=["plain", "encrypted"])
def test_connections_that_say_nothing_hold_nobody_up(keys):
    with control.tcp_control_socket("127.0.0.1", keys, 1000) as (launcher, uri), ExitStack() as stack:
        host, port = uri.removeprefix("tcp://").split(":")
        for _ in range(400):
            stack.enter_context(socket.create_connection((host, int(port)), 5))
        context = stack.enter_context(zmq.Context())
        security = Security(context, keys, plaintext=keys is None)
        with Control(context, uri, security) as role:
            role.send(b"here")
            assert launcher.poll(5000)
            assert launcher.recv_multipart()[1] == b"here"
        security.close()
