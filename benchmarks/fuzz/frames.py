"""Frames that arrive at a socket of a run: each is a message, or a `ProtocolError` that the receiver drops and counts."""

from __future__ import annotations

import random
from functools import cache

from benchmarks.fuzz import Verdict, changes
from tianji.messages import (
    PROTOCOL,
    Batch,
    ChunkHeader,
    Credit,
    Episode,
    Episodes,
    Failed,
    Hello,
    Join,
    PortsOpen,
    ProtocolError,
    Report,
    SlotRef,
    Snapshot,
    Stop,
    Wiring,
    decode_edge,
    decode_from_role,
    decode_to_role,
    encode,
)

LIMIT_S = 1.0


@cache
def whole() -> tuple[bytes, ...]:
    """One of many kinds of message."""
    slot = SlotRef(0, 1)
    header = ChunkHeader(0, 1, 2, 3, 4, 5, 6, slot)
    said = (
        Batch([header]), Credit([slot]), Join(PROTOCOL, 1, 0, 2, 3, 4), Hello("learner g0", PROTOCOL, 1),
        Episodes("actor g0.a0", 9, 8, [Episode(1, 2.0, 3, 4)]), Snapshot(1, 2, 3, b"\0" * 64), Failed("actor g0.a0", "x"),
        PortsOpen("learner g0", PROTOCOL, {"chunks0": "tcp://127.0.0.1:1"}), Report("learner g0", {}, {}, {}, 0.0, 0),
        Wiring({"chunks0": "tcp://127.0.0.1:1"}), Stop("enough"),
    )  # fmt: skip
    return tuple(map(encode, said))


def mutate(rng: random.Random) -> bytes:
    """A message with bytes changed, or noise."""
    return rng.randbytes(rng.randrange(200)) if rng.random() < 0.2 else changes.of_bytes(rng, rng.choice(whole()))


def check(case: bytes) -> Verdict:
    """Read it as each socket of a run does."""
    came: Verdict = "refused"
    for decode in (decode_edge, decode_from_role, decode_to_role):
        try:
            decode(case)
            came = "accepted"
        except ProtocolError:
            continue
    return came
