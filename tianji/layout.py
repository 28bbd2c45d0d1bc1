"""How a chunk of experience lies in memory: named fields in one contiguous buffer.

Producer and consumer agree on a layout at start-up and name it by its id, so that a chunk needs no parsing: it is
copied at most once and read through `np.frombuffer` views. The last field may be *ragged*: it has room for the worst
case, and only the rows in use count as bytes of the chunk (untouched pages of a slot are never allocated).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""Bytes; fields start on a cache line, so that no two share one and vector loads are aligned."""


@dataclass(frozen=True)
class Field:
    """One array of a chunk: its name, element type and shape (rows first)."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one entry of the first axis."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape[1:])


class ChunkLayout:
    """Named fields at fixed offsets in one buffer.

    Parameters
    ----------
    fields
        in the order in which they lie; the last one is ragged (see the module's text).

    Raises
    ------
    ValueError
        when there is no field, or two of one name.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        names = [field.name for field in fields]
        if not fields or len(set(names)) != len(names):
            raise ValueError(f"a layout needs fields with distinct names, not {names}")
        self.fields = tuple(fields)
        self.offsets: dict[str, int] = {}
        offset = 0
        for field in self.fields:
            self.offsets[field.name] = offset
            offset += -(-field.size_bytes // ALIGNMENT) * ALIGNMENT
        self.capacity_bytes = offset
        """Room that a slot needs."""
        description = ";".join(f"{f.name}:{np.dtype(f.dtype).str}:{f.shape}" for f in self.fields)
        digest = hashlib.blake2b(description.encode(), digest_size=8).digest()
        self.id = int.from_bytes(digest, "little") >> 1
        """Digest of the fields, below 2^63. Both ends compute it; peers with different ones refuse each other."""

    def size_bytes(self, ragged_rows: int) -> int:
        """Bytes of a chunk that uses this many rows of the last field."""
        last = self.fields[-1]
        if not 0 <= ragged_rows <= last.shape[0]:
            raise ValueError(f"field {last.name} holds 0 to {last.shape[0]} rows, not {ragged_rows}")
        return self.offsets[last.name] + ragged_rows * last.row_bytes

    def views(self, buffer: Any) -> dict[str, NDArray[Any]]:
        """Arrays over a buffer of `capacity_bytes`, without a copy; writable when the buffer is."""
        return {
            f.name: np.frombuffer(buffer, dtype=f.dtype, count=math.prod(f.shape), offset=self.offsets[f.name]).reshape(f.shape)
            for f in self.fields
        }


def opaque_layout(size_bytes: int) -> ChunkLayout:
    """Layout of up to this many bytes without further structure: a row is a byte."""
    return ChunkLayout([Field("payload", "|u1", (size_bytes,))])


def rollout_layout(
    steps: int,
    environments: int,
    observation_shape: tuple[int, ...],
    observation_dtype: str,
    *,
    behaviour: bool,
    assessed: bool = False,
) -> ChunkLayout:
    """Layout of T x B transitions of one producer.

    Field `observation` has T + 1 rows: row t + 1 is the next observation of step t unless the episode ended there, so
    next observations are not sent twice. Where an episode was cut short (truncated) its last observation, which a
    learner bootstraps from, stands in `final_observation`, in order of (step, environment).

    Parameters
    ----------
    steps, environments
        T and B.
    observation_shape, observation_dtype
        of one observation, as the environment gives it: uint8 stays uint8.
    behaviour
        whether the log-probability of each action under the behaviour policy is kept (PPO).
    assessed
        whether the producer computes advantages and value targets itself.
    """
    t, b = steps, environments
    fields = [
        Field("observation", observation_dtype, (t + 1, b, *observation_shape)),
        Field("action", "<i8", (t, b)),
        Field("reward", "<f4", (t, b)),
        Field("terminated", "|b1", (t, b)),
        Field("truncated", "|b1", (t, b)),
    ]
    if behaviour:
        fields.append(Field("log_probability", "<f4", (t, b)))
    if assessed:
        fields += [Field("advantage", "<f4", (t, b)), Field("value_target", "<f4", (t, b))]
    fields.append(Field("final_observation", observation_dtype, (t * b, *observation_shape)))
    return ChunkLayout(fields)
