"""How a chunk of experience lies in memory: named fields in one contiguous buffer.

Producer and consumer agree on a layout at start-up and name it by its id, so that a chunk needs no parsing: it is
copied at most once and read through `np.frombuffer` views. The last field may be *ragged*: it has room for the worst
case, and only the rows in use count as bytes of the chunk (untouched pages of a slot are never allocated).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
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
    stack: int = 1,
) -> ChunkLayout:
    """Layout of T x B transitions of one producer.

    Field `observation` has T + 1 rows: row t + 1 is the next observation of step t unless the episode ended there, so
    next observations are not sent twice. Where an episode was cut short (truncated) its last observation, which a
    learner bootstraps from, stands in `final_observation`, in order of (step, environment).

    Where a policy sees a stack of S frames, a chunk holds frames all the same, each once: S - 1 rows of history come
    before the T + 1, and field `age` says how many of them belong to the episode of the first observation (the rest mean
    nothing). `stacked` rebuilds what the policy saw.

    Parameters
    ----------
    steps, environments
        T and B.
    observation_shape, observation_dtype
        of one observation, as the environment gives it: uint8 stays uint8.
    behaviour
        whether the log-probability of each action under the behaviour policy is kept (PPO and IMPALA).
    assessed
        whether the producer computes advantages itself, and gives the values under which it did: the sum of the two is a
        value target.
    stack
        S.
    """
    t, b = steps, environments
    fields = [
        Field("observation", observation_dtype, (t + stack, b, *observation_shape)),
        Field("action", "<i8", (t, b)),
        Field("reward", "<f4", (t, b)),
        Field("terminated", "|b1", (t, b)),
        Field("truncated", "|b1", (t, b)),
    ]
    if stack > 1:
        fields.append(Field("age", "|u1", (b,)))
    if behaviour:
        fields.append(Field("log_probability", "<f4", (t, b)))
    if assessed:
        fields += [Field("advantage", "<f4", (t, b)), Field("value", "<f4", (t, b))]
    fields.append(Field("final_observation", observation_dtype, (t * b, *observation_shape)))
    return ChunkLayout(fields)


def ages(ended: NDArray[np.bool_], first: NDArray[Any], stack: int) -> NDArray[np.int64]:
    """How many rows before each of T + 1 observations belong to its episode, up to S - 1, [T + 1, B].

    Parameters
    ----------
    ended : [T, B]
        whether the step from one observation to the next ended an episode.
    first : [B]
        the first observation's.
    stack
        S.
    """
    row = np.arange(len(ended) + 1)[:, None]
    begun = np.empty((len(ended) + 1, ended.shape[1]), np.int64)
    """The row at which the latest episode began, which may lie before the chunk."""
    begun[0] = -first.astype(np.int64)
    begun[1:] = np.where(ended, row[1:], -stack)
    np.maximum.accumulate(begun, axis=0, out=begun)
    age: NDArray[np.int64] = np.minimum(row - begun, stack - 1)
    return age


def stacked(chunk: Mapping[str, NDArray[Any]], stack: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """What a policy that sees S frames at a time saw in a chunk, and the last observations of its truncated episodes.

    A stack holds the oldest frame first. At an episode's start there are fewer than S: its first frame stands for those
    before it.

    Returns
    -------
    observations, final observations
        [T + 1, B, S, ...] and [number truncated, S, ...]; without the axis of S, and without a copy, where S is 1.
    """
    frames, finals = chunk["observation"], chunk["final_observation"][: np.count_nonzero(chunk["truncated"])]
    if stack == 1:
        return frames, finals
    age = ages(chunk["terminated"] | chunk["truncated"], chunk["age"], stack)
    back = np.minimum(np.arange(stack - 1, -1, -1), age[:, :, None])
    row = np.arange(len(age))[:, None, None] + (stack - 1)
    stacks = frames[row - back, np.arange(age.shape[1])[:, None]]
    # One step on, a stack has lost its oldest frame and gained the final one.
    ends = np.concatenate([stacks[:-1][chunk["truncated"]][:, 1:], finals[:, None]], axis=1)
    return stacks, ends
