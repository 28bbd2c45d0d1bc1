"""Encryption of a connection whose two ends share a key: AES-256-GCM (NIST SP 800-38D) in numbered records.

CURVE's cipher, in software, is slower than a fast link. AES is done by the processor. The key is drawn for one connection, and
travels over the edge's own session, which CURVE encrypts with keys that exist for as long as the session. Each direction has a
key derived from it, and numbers its records, so none can be left out, repeated, moved or sent back.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from struct import Struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Buffer = bytes | memoryview

LENGTH = Struct("<I")
"""What precedes a record: bytes of its text. It needs no protection, because with another length the tag is wrong."""
KEY_BYTES = 32
TAG_BYTES = 16
RECORDS_A_KEY = 1 << 20
"""Records after which both sides take a new key. Of 256 KiB each they are 2^34 blocks; 128 bits allow 2^64."""
AHEAD_BYTES = 16384
"""Bytes that are read beyond a record, in the hope of small ones that follow."""


class Forged(Exception):
    """Error: a record that the other side did not send, or not as the next one."""


class Seal:
    """Both directions of one end.

    Parameters
    ----------
    key
        32 random bytes, for this connection alone.
    answers
        whether this is the end that was called. One end must be, the other must not.
    most_bytes
        most bytes of a record's text.
    """

    def __init__(self, key: bytes, *, answers: bool, most_bytes: int) -> None:
        call, answer = _Direction(key, b"call"), _Direction(key, b"answer")
        self._sent, self._received = (answer, call) if answers else (call, answer)
        self._most = most_bytes
        self._came = memoryview(bytearray(LENGTH.size + most_bytes + TAG_BYTES + AHEAD_BYTES))
        self._have = 0

    def seal(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """Bytes to be sent for the next record."""
        text = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        cipher, number = self._sent.following()
        return [LENGTH.pack(len(text)), cipher.encrypt(number, text, None)]

    def room(self) -> memoryview:
        """Where the next bytes that come are to be put."""
        return self._came[self._have : self._size() + AHEAD_BYTES]

    def _size(self, at: int = 0) -> int:
        """Bytes of the record that begins there, as far as they are known."""
        if self._have - at < LENGTH.size:
            return LENGTH.size
        (size,) = LENGTH.unpack_from(self._came, at)
        if size > self._most:
            raise Forged(f"a record of {size} bytes")
        return LENGTH.size + int(size) + TAG_BYTES

    def records(self, got: int) -> Iterator[memoryview]:
        """Records that are whole after so many more bytes. Each must be opened, in turn.

        Raises
        ------
        Forged
            if one is longer than records may be.
        """
        self._have += got
        at = 0
        while self._have - at >= LENGTH.size and self._have - at >= (size := self._size(at)):
            yield self._came[at + LENGTH.size : at + size]
            at += size
        if at:
            self._have -= at
            self._came[: self._have] = bytes(self._came[at : at + self._have])

    def open(self, record: memoryview, into: memoryview) -> None:
        """Write a record's text, which must fit exactly.

        Raises
        ------
        Forged
            if the other side did not send it as its next one. What was written then is nobody's, and is not to be used.
        """
        cipher, number = self._received.following()
        try:
            cipher.decrypt_into(number, record, None, into)
        except InvalidTag:
            raise Forged("a record that is not the other side's next one") from None


class _Direction:
    """Keys of one direction, and the number of its next record."""

    def __init__(self, key: bytes, name: bytes) -> None:
        self._key, self._next = hmac.digest(key, name, "sha256"), 0
        self._cipher = AESGCM(self._key)

    def following(self) -> tuple[AESGCM, bytes]:
        number = self._next
        if number and not number % RECORDS_A_KEY:
            self._key = hmac.digest(self._key, b"next", "sha256")
            self._cipher = AESGCM(self._key)
        self._next += 1
        return self._cipher, number.to_bytes(12, "little")
