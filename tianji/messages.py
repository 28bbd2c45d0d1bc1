"""What crosses a socket: small typed headers, encoded as MessagePack arrays. Never a pickled object.

Bodies (chunks, weights) are not in here: they lie in shared memory, and a header names the place.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

PROTOCOL = 1
"""Grows when the meaning of a message changes; peers of different protocols refuse each other at the first hello."""


class ProtocolError(Exception):
    """A peer sent what this protocol does not allow."""


class SlotRef(Struct, frozen=True, array_like=True):
    """A place for one chunk: slot number `slot` of the arena that producer number `arena` writes to."""

    arena: int
    slot: int


class ChunkHeader(Struct, frozen=True, array_like=True):
    """Describes one chunk: who made it, with which policy, and where it lies."""

    producer: int
    sequence: int
    """0, 1, 2, ... for each producer: a gap is a loss, a repeat a duplicate."""
    version: int
    """Behaviour policy: optimizer steps that its weights had seen."""
    layout: int
    count: int
    """Transitions."""
    ragged_rows: int
    size_bytes: int
    slot: SlotRef


class Batch(Struct, frozen=True, array_like=True, tag=0):
    """Downstream: chunks, oldest first. Ownership of their slots goes with it."""

    chunks: list[ChunkHeader]


class Credit(Struct, frozen=True, array_like=True, tag=1):
    """Upstream: slots whose reader is done with them; each may be written again."""

    slots: list[SlotRef]


class Episode(Struct, frozen=True, array_like=True):
    """A finished episode."""

    at_ns: int
    episode_return: float
    length: int
    actor_steps: int
    """Environment steps of this actor when it ended."""


class Hello(Struct, frozen=True, array_like=True, tag=10):
    """The role is connected and ready to start."""

    role: str
    protocol: int
    pid: int


class Started(Struct, frozen=True, array_like=True, tag=11):
    """The role's first piece of measured work begins; from actors this is the first environment step."""

    role: str
    at_ns: int


class Episodes(Struct, frozen=True, array_like=True, tag=12):
    """Episodes that ended in an actor's last fragment, and its environment steps so far."""

    role: str
    actor_steps: int
    at_ns: int
    episodes: list[Episode]


class Snapshot(Struct, frozen=True, array_like=True, tag=13):
    """The policy as it stood after `steps` environment steps and `version` optimizer steps."""

    version: int
    steps: int
    at_ns: int
    weights: bytes
    """Flat float32 vector, little endian."""


class Done(Struct, frozen=True, array_like=True, tag=14):
    """The learner has reached its budget."""

    reason: str


class Report(Struct, frozen=True, array_like=True, tag=15):
    """A role's account of itself, sent once, when it ends."""

    role: str
    counters: dict[str, float]
    busy_s: dict[str, float]
    wait_s: dict[str, float]
    cpu_s: float
    peak_rss_bytes: int


class Failed(Struct, frozen=True, array_like=True, tag=16):
    """The role cannot go on."""

    role: str
    error: str


class Start(Struct, frozen=True, array_like=True, tag=20):
    """From the launcher: everybody is here, begin."""


class Stop(Struct, frozen=True, array_like=True, tag=21):
    """From the launcher: finish what you hold, account for it and end."""

    reason: str


FromRole = Hello | Started | Episodes | Snapshot | Done | Report | Failed
ToRole = Start | Stop
OnEdge = Batch | Credit

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
_edge = msgspec.msgpack.Decoder(OnEdge)
_from_role = msgspec.msgpack.Decoder(FromRole)
_to_role = msgspec.msgpack.Decoder(ToRole)


def decode_edge(frame: bytes) -> OnEdge:
    """Decode what an edge between roles carries; `ProtocolError` on anything else."""
    try:
        message: OnEdge = _edge.decode(frame)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"not a message of this edge: {error}") from error
    return message


def decode_from_role(frame: bytes) -> FromRole:
    """Decode what a role tells its launcher; `ProtocolError` on anything else."""
    try:
        message: FromRole = _from_role.decode(frame)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"not a message of a role: {error}") from error
    return message


def decode_to_role(frame: bytes) -> ToRole:
    """Decode what the launcher tells a role; `ProtocolError` on anything else."""
    try:
        message: ToRole = _to_role.decode(frame)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"not a message of the launcher: {error}") from error
    return message
