"""Messages on sockets: small typed headers, encoded as MessagePack arrays. Pickle is never used.

Bodies (chunks, weights) are not part of them. They lie in shared memory, and the header names the place, or they are a
separate frame after the header.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tianji.settings import Count

PROTOCOL = 10
"""Version of the protocol. Peers of different versions refuse each other at the first message."""


LIFE = 1 << 32
"""Sequence numbers reserved for each process of a producer."""


class ProtocolError(Exception):
    """Error: a peer sent a message that the protocol does not allow."""


class SlotRef(Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """Place of one chunk: slot number `slot` of the arena to which producer number `arena` writes."""

    arena: Count
    slot: Count


class ChunkHeader(Struct, frozen=True, array_like=True, gc=False):
    """Header of one chunk: its producer, its behaviour policy, and its slot."""

    producer: Count
    sequence: Count
    """Number of the chunk: 0, 1, 2, ... for each producer. A gap is a loss, a repetition is a duplicate. A restarted producer
    counts from the next multiple of `LIFE`."""
    version: Count
    """Version of the behaviour policy: number of changes of the weights (optimizer steps, and means adopted)."""
    layout: Count
    count: Count
    """Number of transitions."""
    ragged_rows: Count
    size_bytes: Count
    slot: SlotRef
    took_ns: Count = 0
    """Nanoseconds from the producer's decision to begin until the slot was full."""
    renewals: tuple[tuple[int, int], ...] = ()
    """Replacements of the weights within the chunk: the first step under the new weights, and their version."""
    last: bool = False
    """Whether its producer makes no other chunk before it is given the weights of the next round."""
    goes_on: bool = True
    """Whether its first observations are the last ones of its producer's chunk before. If not, some steps lie between."""


class Batch(Struct, frozen=True, array_like=True, tag=0):
    """Downstream: headers of chunks, oldest first. It hands over their slots.

    If bodies are sent in messages, a second frame holds them one after the other. Of a body whose segments were sent before,
    it holds the rest.
    """

    chunks: list[ChunkHeader]


class Credit(Struct, frozen=True, array_like=True, tag=1):
    """Upstream: slots that were read and may be written again."""

    slots: list[SlotRef]


Small = Annotated[int, Meta(ge=0, lt=2**31)]
"""Number of a process or a descriptor."""


class Shared(Struct, frozen=True, array_like=True):
    """Memory and a bell that a process of this host shares, as numbers of its descriptors."""

    pid: Small
    memory_fd: Small
    bell_fd: Small


class Join(Struct, frozen=True, array_like=True, tag=2):
    """Request of an outlet for a session. Its first fields are the same in every protocol, so that it can be refused."""

    protocol: int
    incarnation: int
    """Random number of this request, which the answer repeats."""
    member: int
    """Number of a producer, or -1 - k for relay number k. A member that joins again replaces its earlier session."""
    layout: int
    slots: int
    slot_bytes: int
    shared: Shared | None = None
    """Rings for headers and credits, and the bell that wakes the outlet."""


class Direct(Struct, frozen=True, array_like=True):
    """Where an outlet may open a connection for bodies, on the host of the inlet. Its first bytes are the token."""

    port: Annotated[int, Meta(gt=0, lt=2**16)]
    token: Annotated[bytes, Meta(min_length=16, max_length=16)]
    key: Annotated[bytes, Meta(min_length=32, max_length=32)] | None = None
    """Key of this connection alone (`tianji.channel.seal`), if the session is encrypted."""


class Welcome(Struct, frozen=True, array_like=True, tag=3):
    """Answer of an inlet: the session is open."""

    incarnation: int
    held: list[SlotRef]
    """Slots that this member sent earlier and that are still being read. It may write all its other slots."""
    shared: Shared | None = None
    """The bell that wakes the inlet."""
    direct: Direct | None = None


class Refused(Struct, frozen=True, array_like=True, tag=4):
    """Answer of an inlet: there is no session, with the reason."""

    incarnation: int
    reason: str


class Introduce(Struct, frozen=True, array_like=True, tag=5):
    """Downstream: the memory in which the slots of an arena lie from now on."""

    arena: Count
    pid: Small
    memory_fd: Small


class Segment(Struct, frozen=True, array_like=True, tag=6):
    """Downstream: the second frame is a piece of a body. Its header follows later."""

    slot: SlotRef
    offset: Count


class Leave(Struct, frozen=True, array_like=True, tag=7):
    """The sender closes in good order."""


class Subscribe(Struct, frozen=True, array_like=True, tag=8):
    """Request of a reader of weights. Its first fields are the same in every protocol."""

    protocol: int
    incarnation: int
    parameters: int


class Board(Struct, frozen=True, array_like=True, tag=9):
    """Answer of the publisher on one host: the memory of the board, and the bell that wakes all readers."""

    incarnation: int
    shared: Shared


class Ready(Struct, frozen=True, array_like=True, tag=17):
    """Upstream: the reader has room for one vector. At most one is in flight."""


class Weights(Struct, frozen=True, array_like=True, tag=18):
    """Downstream: the second frame is the newest vector, float32, little endian."""

    version: Count


class Episode(Struct, frozen=True, array_like=True):
    """A finished episode."""

    at_ns: int
    episode_return: float
    length: int
    actor_steps: int
    """Environment steps of this actor when the episode ended."""


class Hello(Struct, frozen=True, array_like=True, tag=10):
    """The role is connected and ready to start."""

    role: str
    protocol: int
    pid: int
    boot: str = ""
    """Identity of the clock of its host; see `programs.process.boot`."""
    at_ns: int = 0


class Started(Struct, frozen=True, array_like=True, tag=11):
    """The role begins its first measured work, which for actors is the first environment step."""

    role: str
    at_ns: int


class Episodes(Struct, frozen=True, array_like=True, tag=12):
    """Episodes of an actor that ended since its last report, and its environment steps so far."""

    role: str
    actor_steps: int
    at_ns: int
    episodes: list[Episode]


class Snapshot(Struct, frozen=True, array_like=True, tag=13):
    """The policy after `steps` environment steps and `version` changes of the weights (optimizer steps, and means adopted)."""

    version: int
    steps: int
    at_ns: int
    weights: bytes
    """Flat float32 vector, little endian."""


ACTOR_STEPS = "actor_steps"
"""Name of an actor's counter of environment steps, its predecessors' included."""


class Progress(Struct, frozen=True, array_like=True, tag=26):
    """Progress of a learner or an actor, sent now and then: its current counters."""

    role: str
    at_ns: int
    counters: dict[str, float]


class Done(Struct, frozen=True, array_like=True, tag=14):
    """A learner has used up its budget."""

    reason: str


class Report(Struct, frozen=True, array_like=True, tag=15):
    """Final report of a role, sent once when it ends."""

    role: str
    counters: dict[str, float]
    busy_s: dict[str, float]
    wait_s: dict[str, float]
    cpu_s: float
    peak_rss_bytes: int
    histograms: dict[str, dict[int, int]] = {}
    """Distributions of whole numbers: the count of each value."""


class Failed(Struct, frozen=True, array_like=True, tag=16):
    """The role failed."""

    role: str
    error: str
    """The error in one line."""
    lasting: bool = False
    """Whether it would happen again, so that no role is restarted."""
    traceback: str = ""


class PortsOpen(Struct, frozen=True, array_like=True, tag=24):
    """Addresses at which a process has bound its ends of edges, by the edge's name. It then waits for `Wiring`."""

    role: str
    protocol: int
    addresses: dict[str, str]


class Saved(Struct, frozen=True, array_like=True, tag=25):
    """A learner's state after `steps` environment steps of its group was stored."""

    role: str
    steps: int
    took_ns: int
    at_ns: int


class Wiring(Struct, frozen=True, array_like=True, tag=22):
    """From the launcher: addresses of the edges at which the receiver has an end, by the edge's name."""

    addresses: dict[str, str]


class Save(Struct, frozen=True, array_like=True, tag=23):
    """From the launcher, to learners: store your state."""


class Start(Struct, frozen=True, array_like=True, tag=20):
    """From the launcher: all roles are connected; begin."""


class Stop(Struct, frozen=True, array_like=True, tag=21):
    """From the launcher: finish the current work, report and end."""

    reason: str


class Taken(Struct, frozen=True, array_like=True, tag=29):
    """From the launcher, to a learner: a snapshot was taken."""


class Ping(Struct, frozen=True, array_like=True, tag=27):
    """From the launcher: answer with `Pong`, because no message came for a while."""


class Pong(Struct, frozen=True, array_like=True, tag=28):
    """Answer to `Ping`."""

    role: str


FromRole = PortsOpen | Hello | Started | Episodes | Snapshot | Saved | Progress | Done | Report | Failed | Pong
ToRole = Wiring | Start | Save | Stop | Ping | Taken
OnEdge = Batch | Credit | Join | Welcome | Refused | Introduce | Segment | Leave | Subscribe | Board | Ready | Weights

NO_MESSAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)
"""Exceptions of msgspec for bytes that are not a message."""
_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
_edge = msgspec.msgpack.Decoder(OnEdge)
_from_role = msgspec.msgpack.Decoder(FromRole)
_to_role = msgspec.msgpack.Decoder(ToRole)


def decode_edge(frame: bytes | memoryview) -> OnEdge:
    """Decode a message of an edge between roles. `ProtocolError` for anything else."""
    try:
        message: OnEdge = _edge.decode(frame)
    except NO_MESSAGE as error:
        raise ProtocolError(f"not a message of this edge: {error}") from error
    return message


def decode_from_role(frame: bytes) -> FromRole:
    """Decode a message from a role to its launcher. `ProtocolError` for anything else."""
    try:
        message: FromRole = _from_role.decode(frame)
    except NO_MESSAGE as error:
        raise ProtocolError(f"not a message of a role: {error}") from error
    return message


def decode_to_role(frame: bytes) -> ToRole:
    """Decode a message from the launcher to a role. `ProtocolError` for anything else."""
    try:
        message: ToRole = _to_role.decode(frame)
    except NO_MESSAGE as error:
        raise ProtocolError(f"not a message of the launcher: {error}") from error
    return message
