"""Memory layout of a chunk of experience: named fields in one contiguous buffer.

Producer and consumer agree on a layout at start-up and refer to it by its id. So a chunk needs no parsing: it is copied at
most once and read through `np.frombuffer` views. The last field may be *ragged*: it has room for the worst case, but only the
rows in use count as bytes of the chunk. Untouched pages of a slot are never allocated.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Views = Mapping[str, NDArray[Any]]
"""A chunk's fields by name; see `rollout_layout`."""

ALIGNMENT = 64
"""Alignment of fields in bytes. Each starts on its own cache line, so that vector loads are aligned."""


@dataclass(frozen=True)
class Field:
    """One array of a chunk, with its name, element type and shape (rows first)."""

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
        in memory order. The last one is ragged (see the module).

    Raises
    ------
    ValueError
        if there is no field, or two have the same name.
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
        """Bytes that a slot needs."""
        description = ";".join(f"{f.name}:{np.dtype(f.dtype).str}:{f.shape}" for f in self.fields)
        digest = hashlib.blake2b(description.encode(), digest_size=8).digest()
        self.id = int.from_bytes(digest, "little") >> 1
        """Digest of the fields, below 2^63. Both ends compute it, and refuse each other if the two differ."""

    def size_bytes(self, ragged_rows: int) -> int:
        """Bytes of a chunk that uses this many rows of the last field."""
        last = self.fields[-1]
        if not 0 <= ragged_rows <= last.shape[0]:
            raise ValueError(f"field {last.name} holds 0 to {last.shape[0]} rows, not {ragged_rows}")
        return self.offsets[last.name] + ragged_rows * last.row_bytes

    def views(self, buffer: Any) -> dict[str, NDArray[Any]]:
        """Arrays over a buffer of `capacity_bytes`, without a copy. They are writable if the buffer is."""
        return {
            f.name: np.frombuffer(buffer, dtype=f.dtype, count=math.prod(f.shape), offset=self.offsets[f.name]).reshape(f.shape)
            for f in self.fields
        }


def rollout_layout(
    steps: int,
    environments: int,
    observation_shape: tuple[int, ...],
    observation_dtype: str,
    *,
    behaviour: bool,
    assessed: bool = False,
    stack: int = 1,
    action_shape: tuple[int, ...] = (),
    action_dtype: str = "<i8",
    statistics: int = 0,
) -> ChunkLayout:
    """Layout of T x B transitions of one producer.

    Field `observation` has T + 1 rows, so that next observations are not sent twice: row t + 1 is the next observation of
    step t unless the episode ended there. The last observation of a truncated episode, from which a learner bootstraps, is in
    `final_observation`, in order of (step, environment).

    With stacks of S frames, a chunk still holds each frame once. S - 1 rows of history precede the T + 1 rows. Field `age`
    says how many of them belong to the episode of the first observation; the others are meaningless. `stacked` rebuilds the
    stacks.

    Parameters
    ----------
    steps, environments
        T and B.
    observation_shape, observation_dtype
        shape and type of one observation of the environment; uint8 stays uint8.
    behaviour
        whether the log-probability of each action under the behaviour policy is stored (PPO and IMPALA).
    assessed
        whether the producer computes advantages itself and stores them with the values it used. Their sum is the value target.
    stack
        S.
    action_shape, action_dtype
        shape and type of one action; see `Actions.stored_shape`.
    statistics
        length of the statistics of each environment that a chunk carries; see `tianji.algorithms.normalisation`.
    """
    t, b = steps, environments
    fields = [
        Field("observation", observation_dtype, (t + stack, b, *observation_shape)),
        Field("action", action_dtype, (t, b, *action_shape)),
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
    if statistics:
        fields.append(Field("statistics", "<f8", (b, statistics)))
    fields.append(Field("final_observation", observation_dtype, (t * b, *observation_shape)))
    return ChunkLayout(fields)


def shortened(chunk: Views, steps: int) -> Views:
    """Views of the first `steps` of T steps, for a chunk that its producer ended early. Nothing is copied."""
    missing = len(chunk["action"]) - steps
    if not missing:
        return chunk
    whole = ("age", "statistics", "final_observation")
    return {name: array if name in whole else array[: len(array) - missing] for name, array in chunk.items()}


def ages(ended: NDArray[np.bool_], first: NDArray[Any], stack: int) -> NDArray[np.int64]:
    """Number of rows before each of T + 1 observations that belong to its episode, up to S - 1, [T + 1, B].

    Parameters
    ----------
    ended : [T, B]
        whether the step from one observation to the next ended an episode.
    first : [B]
        age of the first observation.
    stack
        S.
    """
    row = np.arange(len(ended) + 1)[:, None]
    begun = np.empty((len(ended) + 1, ended.shape[1]), np.int64)
    """Row at which the current episode began. It may be before the chunk."""
    begun[0] = -first.astype(np.int64)
    begun[1:] = np.where(ended, row[1:], -stack)
    np.maximum.accumulate(begun, axis=0, out=begun)
    age: NDArray[np.int64] = np.minimum(row - begun, stack - 1)
    return age


def stacked(chunk: Views, stack: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Stacks of S frames of a chunk, as the policy saw them, and those of the last observations of truncated episodes.

    A stack has the oldest frame first. If an episode has fewer than S frames, its first frame is repeated.

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
    # The next stack drops the oldest frame and adds the final one.
    ends = np.concatenate([stacks[:-1][chunk["truncated"]][:, 1:], finals[:, None]], axis=1)
    return stacks, ends
