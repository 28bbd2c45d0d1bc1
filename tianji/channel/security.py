"""Encryption and authentication between hosts with CURVE: only processes with the run's keys can connect.

A run has one key pair, which its launcher hands to every role. The sockets of inlets own its secret key, and a peer that
connects must prove that it owns it too. libzmq encrypts and authenticates traffic by CurveCP's construction.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zmq
from zmq.utils import z85

from tianji.channel.base import ChannelError, log

if TYPE_CHECKING:
    from zmq.auth.thread import ThreadAuthenticator

DOMAIN = "tianji"
CURVE_BYTES = 33
"""Bytes that encryption adds to a frame: command name, nonce, authenticator, flags (RFC 26/CurveZMQ, MESSAGE)."""


@dataclass(frozen=True)
class Keys:
    """Key pair of a run. Each key is Z85 text of 40 characters."""

    public: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> Keys:
        """Make a new pair."""
        return cls(*zmq.curve_keypair())

    def write(self, path: Path) -> None:
        """Write a new file that only its owner can read.

        Raises
        ------
        ChannelError
            if the file exists: a key is never overwritten.
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
            if it is missing, holds no matching pair, or can be read by other users than its owner.
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
    """Whether traffic at this address stays on its host: any scheme but tcp, or tcp at a loopback address."""
    if not uri.startswith("tcp://"):
        return True
    host = uri.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if host in ("localhost", "lo"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # A name, or `*`, may be reachable from anywhere.


class Security:
    """Applies a run's keys to the sockets of one process.

    Parameters
    ----------
    keys
        keys of the run. All tcp edges then use them, also on loopback.
    plaintext
        allows addresses outside this host without keys. Anyone on the network can then read and change the traffic.
    """

    def __init__(self, context: zmq.Context[Any], keys: Keys | None, *, plaintext: bool) -> None:
        self._context, self._keys, self._plaintext = context, keys, plaintext
        self._authenticator: ThreadAuthenticator | None = None

    def admit(self, uri: str) -> bool:
        """Whether an edge at this address is encrypted.

        Raises
        ------
        ChannelError
            for an address outside this host if there are no keys and plaintext was not chosen.
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

    def encrypts(self, uri: str) -> bool:
        """Whether traffic at this address is encrypted."""
        return self._keys is not None and uri.startswith("tcp://")

    def frame_bytes(self, uri: str, largest_bytes: int) -> int:
        """Size of a frame on the wire at this address, to which libzmq applies its limit."""
        return largest_bytes + (CURVE_BYTES if self.encrypts(uri) else 0)

    def bind_side(self, socket: zmq.Socket[bytes], uri: str) -> None:
        """Prepare a socket to which peers connect."""
        if self.admit(uri):
            assert self._keys is not None
            if self._authenticator is None:
                # Imported late, because it imports asyncio, which nothing else here needs.
                from zmq.auth.thread import ThreadAuthenticator

                self._authenticator = ThreadAuthenticator(self._context)
                self._authenticator.configure_curve_callback(DOMAIN, _Members(self._keys.public))
                self._authenticator.start()
            socket.zap_domain = DOMAIN.encode()
            socket.curve_server = True
            socket.curve_secretkey = self._keys.secret
            socket.curve_publickey = self._keys.public

    def connect_side(self, socket: zmq.Socket[bytes], uri: str) -> None:
        """Prepare a socket that connects to a peer."""
        if self.admit(uri):
            assert self._keys is not None
            socket.curve_serverkey = socket.curve_publickey = self._keys.public
            socket.curve_secretkey = self._keys.secret

    def close(self) -> None:
        """Stop the thread that authenticates peers."""
        if self._authenticator is not None:
            self._authenticator.stop()
            self._authenticator = None


class _Members:
    """Authentication rule: owners of the run's key may connect."""

    def __init__(self, public: bytes) -> None:
        self._public = public

    def callback(self, domain: str, key: bytes) -> bool:
        return hmac.compare_digest(key, self._public)
