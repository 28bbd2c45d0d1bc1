"""Key files: never overwritten, readable by their owner only, and checked when they are read."""

import pytest
import zmq

from programs.cli import ConfigError
from tianji.__main__ import main
from tianji.channel.base import ChannelError
from tianji.channel.security import Keys, is_loopback


def test_the_command_makes_a_file_that_only_its_owner_can_read(tmp_path, capsys):
    path = tmp_path / "run.key"
    assert main(["keys", str(path)]) == 0
    keys = Keys.read(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert zmq.curve_public(keys.secret) == keys.public
    said = capsys.readouterr().out
    assert str(path) in said
    assert keys.secret.decode() not in said
    with pytest.raises(ConfigError, match="never overwritten"):
        main(["keys", str(path)])
    assert Keys.read(path) == keys


def test_every_pair_is_another():
    assert len({Keys.generate().secret for _ in range(5)}) == 5


def test_a_secret_is_not_shown():
    keys = Keys.generate()
    assert keys.secret.decode() not in repr(keys)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path, mode):
    path = tmp_path / "run.key"
    Keys.generate().write(path)
    path.chmod(mode)
    with pytest.raises(ChannelError, match="chmod 600"):
        Keys.read(path)


@pytest.mark.parametrize("content", [b"", b"public = x\nsecret = y\n", b"\xff\xfe", b"public = " + b"0" * 40])
def test_what_is_no_key_file_is_refused(tmp_path, content):
    path = tmp_path / "run.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ChannelError, match="not a key file"):
        Keys.read(path)


def test_halves_of_two_pairs_are_refused(tmp_path):
    path = tmp_path / "run.key"
    Keys(Keys.generate().public, Keys.generate().secret).write(path)
    with pytest.raises(ChannelError, match="not a key file"):
        Keys.read(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(ChannelError, match="No such file"):
        Keys.read(tmp_path / "none")


@pytest.mark.parametrize(
    ("uri", "inside"),
    [
        ("ipc:///tmp/x", True),
        ("shm:///tmp/x", True),
        ("inproc://x", True),
        ("tcp://127.0.0.1:5000", True),
        ("tcp://127.8.9.1:0", True),
        ("tcp://localhost:5000", True),
        ("tcp://[::1]:5000", True),
        ("tcp://*:5000", False),
        ("tcp://0.0.0.0:5000", False),
        ("tcp://[::]:5000", False),
        ("tcp://10.0.0.7:5000", False),
        ("tcp://localhost.example:5000", False),
        ("tcp://127.0.0.1.example:5000", False),
        ("tcp://eth0:5000", False),
    ],
)
def test_what_stays_on_this_host(uri, inside):
    assert is_loopback(uri) is inside
