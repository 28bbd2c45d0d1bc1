"""CURVE between hosts: who has the run's keys belongs to the run, nobody else gets a word.

One key pair serves a run: its launcher hands it to every role, the inlets' sockets own its secret, and whoever connects must
prove that they own it too. Traffic is encrypted and authenticated by CurveCP's construction, as libzmq implements it.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq
import zmq.auth
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils import z85

from tianji.channel.base import ChannelError, log

DOMAIN = "tianji"
CURVE_BYTES = 33
"""That encryption adds to a frame: command name, nonce, authenticator, flags (RFC 26/CurveZMQ, MESSAGE)."""


@dataclass(frozen=True)
class Keys:
    """A run's key pair, Z85 text of 40 characters each."""

    public: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> Keys:
        """A new pair."""
        return cls(*zmq.curve_keypair())

    def write(self, path: Path) -> None:
        """Write a new file that only its owner can read.

        Raises
        ------
        ChannelError
            when there is such a file already: a key is never overwritten.
        """
        text = b"# tianji run key: copy it to every host of the run, and show it to nobody\n"
        text += b"public = " + self.public + b"\nsecret = " + self.secret + b"\n"
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise ChannelError(f"{path}: exists; a key is never overwritten, name a new file") from None
        except OSError as error:
            raise ChannelError(f"{path}: {error.strerror}") from None
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o600)
            file.write(text)

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Read a file that `write` made.

        Raises
        ------
        ChannelError
            when it is missing, holds no pair that belongs together, or can be read by others than its owner.
        """
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                lines = file.read(4096).splitlines()
        except OSError as error:
            raise ChannelError(f"{path}: {error.strerror}") from None
        if stat.S_IMODE(mode) & 0o077:
            raise ChannelError(f"{path}: others than its owner can read it; chmod 600, and better make new keys")
        found = dict(line.split(b" = ", 1) for line in lines if b" = " in line)
        public, secret = found.get(b"public", b""), found.get(b"secret", b"")
        try:
            fits = len(z85.decode(public)) == len(z85.decode(secret)) == 32 and zmq.curve_public(secret) == public
        except (ValueError, KeyError, zmq.ZMQError):
            fits = False
        if not fits:
            raise ChannelError(f"{path}: not a key file; make one with `tianji keys`")
        return cls(public, secret)


def is_loopback(uri: str) -> bool:
    """Whether what this address carries stays on its host: anything but tcp, or tcp to or from a loopback address."""
    if not uri.startswith("tcp://"):
        return True
    host = uri.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if host in ("localhost", "lo"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # A name, or `*`: it may be reached from anywhere.


class Security:
    """What sockets of one process are told about keys.

    Parameters
    ----------
    keys
        of the run; all tcp edges then use them, also on loopback.
    plaintext
        allows addresses off this host without keys: everybody on the way can read and change what is sent.
    """

    def __init__(self, context: zmq.Context[Any], keys: Keys | None, *, plaintext: bool) -> None:
        self._context, self._keys, self._plaintext = context, keys, plaintext
        self._authenticator: ThreadAuthenticator | None = None

    def admit(self, uri: str) -> bool:
        """Whether an edge at this address is encrypted.

        Raises
        ------
        ChannelError
            for an address off this host where there are no keys and plaintext was not chosen.
        """
        if not uri.startswith("tcp://"):
            return False
        if self._keys is not None:
            return True
        if not is_loopback(uri):
            if not self._plaintext:
                raise ChannelError(f"{uri} can be reached from other hosts: give the run's keys, or choose plaintext")
            log.warning("%s: PLAINTEXT off this host, by choice: whoever is on the way can read and change it", uri)
        return False

    def frame_bytes(self, uri: str, largest_bytes: int) -> int:
        """What a frame of this size is on the wire of this address: libzmq applies its limit to that."""
        encrypted = self._keys is not None and uri.startswith("tcp://")
        return largest_bytes + (CURVE_BYTES if encrypted else 0)

    def bind_side(self, socket: zmq.Socket[bytes], uri: str) -> None:
        """Prepare a socket that others connect to."""
        if self.admit(uri):
            assert self._keys is not None
            if self._authenticator is None:
                self._authenticator = ThreadAuthenticator(self._context)
                self._authenticator.configure_curve_callback(DOMAIN, _Members(self._keys.public))
                self._authenticator.start()
            socket.zap_domain = DOMAIN.encode()
            socket.curve_server = True
            socket.curve_secretkey = self._keys.secret
            socket.curve_publickey = self._keys.public

    def connect_side(self, socket: zmq.Socket[bytes], uri: str) -> None:
        """Prepare a socket that connects to others."""
        if self.admit(uri):
            assert self._keys is not None
            socket.curve_serverkey = socket.curve_publickey = self._keys.public
            socket.curve_secretkey = self._keys.secret

    def close(self) -> None:
        """End the thread that answers who may connect."""
        if self._authenticator is not None:
            self._authenticator.stop()
            self._authenticator = None


class _Members:
    """Who may connect: owners of the run's key."""

    def __init__(self, public: bytes) -> None:
        self._public = public

    def callback(self, domain: str, key: bytes) -> bool:
        return hmac.compare_digest(key, self._public)
