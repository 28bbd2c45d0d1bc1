"""What crosses a socket: small typed headers, encoded as MessagePack arrays. Never a pickled object.

Bodies (chunks, weights) are not in here: they lie in shared memory, where a header names the place, or are a frame of
their own beside the header.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tianji.settings import Count

PROTOCOL = 4
"""Grows when the meaning of a message changes; peers of different protocols refuse each other at the first hello."""


LIFE = 1 << 32
"""Chunks that one process of a producer can number."""


class ProtocolError(Exception):
    """A peer sent what this protocol does not allow."""


class SlotRef(Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """A place for one chunk: slot number `slot` of the arena that producer number `arena` writes to."""

    arena: Count
    slot: Count


class ChunkHeader(Struct, frozen=True, array_like=True, gc=False):
    """Describes one chunk: who made it, with which policy, and where it lies."""

    producer: Count
    sequence: Count
    """0, 1, 2, ... for each producer: a gap is a loss, a repeat a duplicate. One that was started again counts from the next
    multiple of `LIFE`."""
    version: Count
    """Behaviour policy: changes of the weights (optimizer steps, and means adopted) that it had seen."""
    layout: Count
    count: Count
    """Transitions."""
    ragged_rows: Count
    size_bytes: Count
    slot: SlotRef
    took_ns: Count = 0
    """From the producer's decision to begin until the slot was full."""


class Batch(Struct, frozen=True, array_like=True, tag=0):
    """Downstream: chunks, oldest first. Ownership of their slots goes with it.

    Where bodies travel, a second frame holds them back to back; of a body of which segments went before, the rest.
    """

    chunks: list[ChunkHeader]


class Credit(Struct, frozen=True, array_like=True, tag=1):
    """Upstream: slots whose reader is done with them; each may be written again."""

    slots: list[SlotRef]


Small = Annotated[int, Meta(ge=0, lt=2**31)]
"""A process or descriptor, as the kernel numbers them."""


class Shared(Struct, frozen=True, array_like=True):
    """Memory and a bell that a process of this host offers: descriptors as they are numbered in that process."""

    pid: Small
    memory_fd: Small
    bell_fd: Small


class Join(Struct, frozen=True, array_like=True, tag=2):
    """An outlet asks to send. Its first fields keep their places in every protocol, so that a refusal can be told."""

    protocol: int
    incarnation: int
    """Drawn anew each time; the answer names it."""
    member: int
    """A producer's number, or -1 - k for relay number k. A member that joins again replaces what it was."""
    layout: int
    slots: int
    slot_bytes: int
    shared: Shared | None = None
    """Rings for headers and credits, and the bell that wakes the outlet."""


class Welcome(Struct, frozen=True, array_like=True, tag=3):
    """The inlet's answer: the session is open."""

    incarnation: int
    held: list[SlotRef]
    """Slots that this member sent earlier and that are still being read; all its others are its to write."""
    shared: Shared | None = None
    """The bell that wakes the inlet."""


class Refused(Struct, frozen=True, array_like=True, tag=4):
    """There will be no session, and why."""

    incarnation: int
    reason: str


class Introduce(Struct, frozen=True, array_like=True, tag=5):
    """Downstream: where the slots of this arena lie from now on."""

    arena: Count
    pid: Small
    memory_fd: Small


class Segment(Struct, frozen=True, array_like=True, tag=6):
    """Downstream: the second frame is a piece of a body whose header will follow."""

    slot: SlotRef
    offset: Count


class Leave(Struct, frozen=True, array_like=True, tag=7):
    """Whoever sends this closes in good order."""


class Subscribe(Struct, frozen=True, array_like=True, tag=8):
    """A reader of weights asks for them. Its first fields keep their places in every protocol."""

    protocol: int
    incarnation: int
    parameters: int


class Board(Struct, frozen=True, array_like=True, tag=9):
    """The publisher's answer on one host: where the board stands, and the bell that is rung for all readers."""

    incarnation: int
    shared: Shared


class Ready(Struct, frozen=True, array_like=True, tag=17):
    """Upstream: the reader has room for one vector. At most one is ever under way."""


class Weights(Struct, frozen=True, array_like=True, tag=18):
    """Downstream: the second frame is the newest vector, float32, little endian."""

    version: Count


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
    """Episodes of an actor that ended since it last told, and its environment steps so far."""

    role: str
    actor_steps: int
    at_ns: int
    episodes: list[Episode]


class Snapshot(Struct, frozen=True, array_like=True, tag=13):
    """The policy as it stood after `steps` environment steps and `version` changes of the weights (optimizer steps, and means
    adopted)."""

    version: int
    steps: int
    at_ns: int
    weights: bytes
    """Flat float32 vector, little endian."""


ACTOR_STEPS = "actor_steps"
"""The counter of an actor that says how many environment steps it and its predecessors made."""


class Progress(Struct, frozen=True, array_like=True, tag=26):
    """How far a learner or an actor is, now and then: its counters as they stand."""

    role: str
    at_ns: int
    counters: dict[str, float]


class Done(Struct, frozen=True, array_like=True, tag=14):
    """A learner has reached its budget."""

    reason: str


class Report(Struct, frozen=True, array_like=True, tag=15):
    """A role's account of itself, sent once, when it ends."""

    role: str
    counters: dict[str, float]
    busy_s: dict[str, float]
    wait_s: dict[str, float]
    cpu_s: float
    peak_rss_bytes: int
    histograms: dict[str, dict[int, int]] = {}
    """Distributions of whole numbers, as how many there were of each value."""


class Failed(Struct, frozen=True, array_like=True, tag=16):
    """The role cannot go on."""

    role: str
    error: str


class Bound(Struct, frozen=True, array_like=True, tag=24):
    """The ends of edges that others come to are open: where, by the edge's name. The rest waits for `Wiring`."""

    role: str
    protocol: int
    addresses: dict[str, str]


class Saved(Struct, frozen=True, array_like=True, tag=25):
    """A learner's state as it stood after `steps` environment steps of its group is stored."""

    role: str
    steps: int
    took_ns: int
    at_ns: int


class Wiring(Struct, frozen=True, array_like=True, tag=22):
    """From the launcher: the address of every edge."""

    addresses: dict[str, str]


class Save(Struct, frozen=True, array_like=True, tag=23):
    """From the launcher, to learners: store your state."""


class Start(Struct, frozen=True, array_like=True, tag=20):
    """From the launcher: everybody is here, begin."""


class Stop(Struct, frozen=True, array_like=True, tag=21):
    """From the launcher: finish what you hold, account for it and end."""

    reason: str


FromRole = Bound | Hello | Started | Episodes | Snapshot | Saved | Progress | Done | Report | Failed
ToRole = Wiring | Start | Save | Stop
OnEdge = Batch | Credit | Join | Welcome | Refused | Introduce | Segment | Leave | Subscribe | Board | Ready | Weights

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
_edge = msgspec.msgpack.Decoder(OnEdge)
_from_role = msgspec.msgpack.Decoder(FromRole)
_to_role = msgspec.msgpack.Decoder(ToRole)


def decode_edge(frame: bytes | memoryview) -> OnEdge:
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
