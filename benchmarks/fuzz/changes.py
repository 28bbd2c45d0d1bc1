"""Random changes to valid inputs: to bytes, and to JSON values by type and structure."""

from __future__ import annotations

import random
from typing import Any

STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**70, -(2**70), 1e300, float("nan"), float("inf"), "", "x" * 5000, "\x00", "\x1b[2J",
    "../..", "/etc/passwd", "os:system", "module:Class", "\ud800", [], {}, [[]], {"a": {}}, [0] * 3000,
)  # fmt: skip
"""Values of wrong types and sizes, which replace valid ones."""


def of_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bytes changed, cut off, doubled or put in."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0 if place < len(data):
                data[place] = rng.randrange(256)
            case 1:
                del data[place : place + rng.choice((1, 4, 64, len(data)))]
            case 2:
                data[place:place] = rng.randbytes(rng.choice((1, 8, 200)))
            case _:
                data[place:place] = data[place : place + 50]
    return bytes(data)


def of_json(rng: random.Random, data: Any) -> Any:
    """One value replaced, one key renamed, one thing left out or nested deeply."""
    if isinstance(data, (dict, list)) and data and rng.random() < 0.8:
        keys = list(data) if isinstance(data, dict) else list(range(len(data)))
        key = rng.choice(keys)
        changed: Any = dict(data) if isinstance(data, dict) else list(data)
        match rng.randrange(8):
            case 0:
                del changed[key]
            case 1 if isinstance(changed, dict):
                changed[rng.choice(("", "\x00", "env", "x" * 300, "__class__"))] = changed.pop(key)
            case _:
                changed[key] = of_json(rng, data[key])
        return changed
    if rng.random() < 0.05:
        deep: Any = 0
        for _ in range(rng.choice((40, 400))):
            deep = [deep]
        return deep
    return rng.choice(STRANGE)
