"""Messages through the broker: headers of fragments to the learner, notices of weights and free slots to explorers."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from tianji.messages import ChunkHeader, ProtocolError, SlotRef


class Notice(Struct, frozen=True, array_like=True):
    """From the learner: the version of the weights in the store, and slots that are free again."""

    version: int
    slots: list[SlotRef]
    """Free slots of all explorers; each takes those of its arena. One message for weights and credit means one wake-up."""


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


def address(explorers: Iterable[int], *, weights: bool = False) -> bytes:
    """The first frame of a message to explorers, which is all that a broker reads: whether there are new weights, and who
    is meant.
    """
    numbers = list(explorers)
    return struct.pack(f"<?{len(numbers)}H", weights, *numbers)


def addressees(frame: bytes) -> tuple[int, ...]:
    """The explorers of an `address`."""
    return struct.unpack_from(f"<{(len(frame) - 1) // 2}H", frame, 1)


def brings_weights(frame: bytes) -> bool:
    """Whether new weights stand in the store, by an `address`."""
    return frame[0] != 0


_label = struct.Struct("<HHQ")


def label(slot: SlotRef, size_bytes: int) -> bytes:
    """The first frame of a fragment that goes to another node: where its body lies, which is all that brokers read."""
    return _label.pack(slot.arena, slot.slot, size_bytes)


def labelled(frame: bytes) -> tuple[SlotRef, int]:
    """Inverse of `label`; `ProtocolError` on anything else."""
    try:
        arena, slot, size_bytes = _label.unpack(frame)
    except struct.error as error:
        raise ProtocolError(f"not the label of a fragment: {error}") from error
    return SlotRef(arena, slot), size_bytes
