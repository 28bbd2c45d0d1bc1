"""Replay of the most recent transitions, with each observation stored once. Draws are uniform, over all or the newest.

Every environment has a stream: a ring of rows, one per observation, in the order in which they were made. A row *starts a
transition* if an action was taken on its observation; the next observation is the row after it. The last observation of a
truncated episode starts no transition. The newest row of a stream is *open*: it starts no transition until the next chunk
begins with it. Stacks of frames are rebuilt when a transition is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.state import Arrays
from tianji.environments.description import EnvDescription
from tianji.layout import Views, ages

COLUMNS = ("observation", "action", "reward", "terminated", "starts", "age")


@dataclass(frozen=True)
class Experience:
    """Chunk with its producer and sequence number, which show whether it continues another chunk."""

    views: Views
    producer: int
    sequence: int
    """Number of the chunk: 0, 1, 2, ... for each producer."""
    goes_on: bool = True
    """Whether it begins with the last observations of the chunk before."""


class Replay:
    """Uniform replay in preallocated arrays. Observations keep the type of the environment (uint8 stays uint8).

    The operating system allocates memory when it is first written.

    Parameters
    ----------
    capacity
        transitions kept over all streams. The oldest of each stream are overwritten. Last observations of truncated episodes
        and rows after a gap in the sequence take the place of some.
    streams
        number of environments, over all producers.
    describe
        describes the environment: an observation (one frame), an action, and the number of frames in a stack, S.
    """

    def __init__(self, capacity: int, streams: int, describe: EnvDescription) -> None:
        stack, actions = describe.stack, describe.actions
        self.streams = streams
        self.stack = stack
        self.rows = -(-capacity // streams) + stack + 1
        """Rows of one stream: its transitions, the history of a stack, and the open row."""
        self.size = 0
        """Number of transitions stored."""
        total = streams * self.rows
        self._observation = np.zeros((total, *describe.stored_shape), describe.stored_dtype)
        self._action = np.zeros((total, *actions.stored_shape), actions.stored_dtype)
        self._reward = np.zeros(total, np.float32)
        self._terminated = np.zeros(total, bool)
        self._starts = np.zeros(total, bool)
        self._age = np.zeros(total, np.uint8)
        """Number of earlier rows of the same episode, up to S - 1, for each row."""
        self._written = np.zeros(streams, np.int64)
        """Number of rows ever written to each stream. Row p is stored at p modulo `rows`."""
        self._sequence: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        """Memory in bytes once the replay is full."""
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))

    @property
    def drawn_bytes(self) -> int:
        """Size in bytes of the observations of one drawn transition."""
        return (self.stack + 1) * int(self._observation[0].nbytes)

    def insert(self, experience: Experience) -> None:
        """Add a chunk's transitions to the streams of its producer.

        A chunk that does not continue its producer's last chunk starts new rows, with the frames of history that it carries.

        Raises
        ------
        ValueError
            if a stream has no room for a chunk's steps, or there is no stream for this producer.
        """
        chunk, producer = experience.views, experience.producer
        steps, environments = chunk["reward"].shape
        if 2 * steps + 1 > self.rows:  # The observations of a chunk in which every episode lasts one step.
            raise ValueError(f"two chunks of {steps} steps do not fit into a replay of {self.rows} rows for each environment")
        if (producer + 1) * environments > self.streams:
            raise ValueError(f"producer {producer} of {environments} environments exceeds the replay's {self.streams} streams")
        goes_on = experience.goes_on and self._sequence.get(producer) == experience.sequence - 1
        self._sequence[producer] = experience.sequence
        if self.stack > 1:
            age = ages(chunk["terminated"] | chunk["truncated"], chunk["age"], self.stack)
        else:
            age = np.zeros((steps + 1, environments), np.int64)
        numbered = np.cumsum(chunk["truncated"]).reshape(steps, environments) - 1
        for b in range(environments):
            stream = producer * environments + b
            if not goes_on:
                known = int(age[0, b])
                rows = self._claim(stream, known)
                self._observation[rows] = chunk["observation"][self.stack - 1 - known : self.stack - 1, b]
                self._age[rows] = np.arange(known)
            cut = np.flatnonzero(chunk["truncated"][:, b])
            # If the chunk continues the stream, the newest row already holds its first observation.
            self._written[stream] -= goes_on
            rows = self._claim(stream, steps + 1 + len(cut))
            self._observation[rows[cut + np.arange(1, len(cut) + 1)]] = chunk["final_observation"][numbered[cut, b]]
            # Each truncated step shifts the later steps by one row, that of its last observation.
            acted = np.arange(steps + 1)
            acted[1:] += np.cumsum(chunk["truncated"][:, b])
            at = rows[acted]
            self._observation[at] = chunk["observation"][self.stack - 1 :, b]
            self._age[at] = age[:, b]
            at = at[:-1]
            for place, name in ((self._action, "action"), (self._reward, "reward"), (self._terminated, "terminated")):
                place[at] = chunk[name][:, b]
            self._starts[at] = True
            self.size += self._count(rows)

    def draw(
        self, rng: np.random.Generator, count: int, recent: float = 0.0, newest: int | None = None
    ) -> dict[str, NDArray[Any]]:
        """Draw transitions uniformly with replacement, and return their fields by name.

        Observations are [N, ...], or stacks [N, S, ...] with the oldest frame first. If an episode has fewer frames, its
        first frame is repeated. The next observation of a terminated step is meaningless.

        Parameters
        ----------
        recent
            probability that a draw is from the newest rows only.
        newest
            number of these rows, over all streams; the same number of each, and at least two.

        Raises
        ------
        ValueError
            if there is no transition.
        """
        if not self.size:
            raise ValueError("there is no transition in this replay")
        stream, row = self._drawn(rng, count)
        if recent and newest is not None:
            replaced = np.flatnonzero(rng.random(count) < recent)
            # The last chunk of a stream may end with the last observation of an episode, which starts no transition. The row
            # before it does.
            stream[replaced], row[replaced] = self._drawn(rng, len(replaced), max(2, -(-newest // self.streams)))
        at = self._at(stream, row)
        observation, following = self._seen(stream, row)
        return {
            "observation": observation,
            "next_observation": following,
            "action": self._action.take(at, axis=0),
            "reward": self._reward.take(at),
            "terminated": self._terminated.take(at),
        }

    def state(self) -> Arrays:
        """Arrays of everything that was written. After a restore a producer's first chunk starts new rows unless it goes on."""
        rows = min(int(self._written.max(initial=0)), self.rows)
        columns = {name: self._by_stream(name)[:, :rows] for name in COLUMNS}
        return columns | {"written": self._written}

    def restore(self, arrays: Arrays) -> None:
        """Restore what `state` returned.

        Raises
        ------
        ValueError
            if its sizes differ.
        """
        for name in COLUMNS:
            place, kept = self._by_stream(name), arrays[name]
            rows = kept.shape[1]
            if rows > self.rows or kept.shape != place[:, :rows].shape or kept.dtype != place.dtype:
                raise ValueError(f"a replay of {kept.shape} {name}s does not fit into one of {place.shape}")
            place[:, :rows] = kept
        if len(arrays["written"]) != self.streams or int(arrays["written"].max(initial=0)) > rows < self.rows:
            raise ValueError("a replay of another number of environments, or of another capacity")
        self._written[:] = arrays["written"]
        # A producer that goes on where its last stored chunk ended begins again with number 0, and says so.
        self._sequence = dict.fromkeys(range(self.streams), -1)
        self.size = int(np.count_nonzero(self._starts))

    def _by_stream(self, name: str) -> NDArray[Any]:
        array: NDArray[Any] = getattr(self, f"_{name}")
        return array.reshape(self.streams, self.rows, *array.shape[1:])

    def _claim(self, stream: int, count: int) -> NDArray[np.int64]:
        """Positions of the next rows of a stream, oldest first. Their contents are dropped."""
        rows = stream * self.rows + np.arange(self._written[stream], self._written[stream] + count) % self.rows
        self._written[stream] += count
        self.size -= self._count(rows)
        self._starts[rows] = False
        return rows

    def _count(self, rows: NDArray[np.int64]) -> int:
        """Number of transitions that start in these rows. A row that is named twice counts once."""
        return int(np.count_nonzero(self._starts[rows[-self.rows :]]))

    def _oldest(self) -> NDArray[np.int64]:
        return np.maximum(self._written - self.rows, 0)

    def _at(self, stream: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.int64]:
        place: NDArray[np.int64] = stream * self.rows + row % self.rows
        return place

    def _drawn(
        self, rng: np.random.Generator, count: int, newest: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Streams and rows of transitions drawn uniformly, from all or from the newest rows of each stream."""
        stream, row = self._candidates(rng, count, newest)
        while len(rejected := np.flatnonzero(~self._drawable(stream, row))):
            stream[rejected], row[rejected] = self._candidates(rng, len(rejected), newest)
        return stream, row

    def _candidates(
        self, rng: np.random.Generator, count: int, newest: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Streams and rows drawn uniformly from all stored rows, or the newest ones, but the open one of each stream."""
        oldest = self._oldest() if newest is None else np.maximum(self._oldest(), self._written - 1 - newest)
        ends: NDArray[np.int64] = np.cumsum(np.maximum(self._written - 1 - oldest, 0))
        number = rng.integers(0, ends[-1], count)
        stream: NDArray[np.int64] = np.searchsorted(ends, number, side="right")
        return stream, self._written[stream] - 1 + number - ends[stream]

    def _drawable(self, stream: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether a transition starts in each row and its history is still stored."""
        at = self._at(stream, row)
        good: NDArray[np.bool_] = self._starts.take(at)
        if self.stack > 1:
            good &= row - self._age.take(at) >= self._oldest().take(stream)
        return good

    def _seen(self, stream: NDArray[np.int64], row: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Observations and next observations. Stacks of the two share all frames but one."""
        if self.stack == 1:
            # `take` gathers short rows many times faster than indexing.
            before, after = (self._observation.take(self._at(stream, r), axis=0) for r in (row, row + 1))
            return before, after
        back = np.arange(self.stack - 1, -2, -1)
        first = row - self._age[self._at(stream, row)]
        frames = self._observation[self._at(stream[:, None], np.maximum(row[:, None] - back, first[:, None]))]
        return frames[:, :-1], frames[:, 1:]
