"""What crosses the broker: headers of fragments on the way up, and one notice a round on the way down."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from tianji.messages import ChunkHeader, ProtocolError, SlotRef


class Notice(Struct, frozen=True, array_like=True):
    """From the learner: the version of the weights that now stand in the store, and slots that were trained on."""

    version: int
    slots: list[SlotRef]
    """Of all explorers; each takes those of its own arena. One message for weights and credit wakes an explorer once."""


_header = msgspec.msgpack.Decoder(ChunkHeader)
_notice = msgspec.msgpack.Decoder(Notice)


def decode_header(frame: bytes) -> ChunkHeader:
    """Decode a fragment's header; `ProtocolError` on anything else."""
    try:
        return _header.decode(frame)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"not the header of a fragment: {error}") from error


def decode_notice(frame: bytes) -> Notice:
    """Decode a notice; `ProtocolError` on anything else."""
    try:
        return _notice.decode(frame)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"not a notice of the learner: {error}") from error


def address(explorers: Iterable[int]) -> bytes:
    """The first frame of a message to explorers: their numbers, which are all that the broker reads."""
    numbers = list(explorers)
    return struct.pack(f"<{len(numbers)}H", *numbers)


def addressees(frame: bytes) -> tuple[int, ...]:
    """Inverse of `address`."""
    return struct.unpack(f"<{len(frame) // 2}H", frame)
