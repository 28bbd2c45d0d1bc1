"""Chunks that wait at a role, with the counts that disciplines ask for. None of them is found by going through the chunks.

A role asks after every arrival. Going through all that wait would then cost the square of the number of producers in a round.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import count, islice
from operator import itemgetter
from typing import overload

from tianji.messages import ChunkHeader


class Waiting(Sequence[ChunkHeader]):
    """Chunks that wait, in order of arrival. To add or remove one takes the same time for any number.

    Attributes
    ----------
    samples
        samples of all of them.
    """

    def __init__(self, chunks: Iterable[ChunkHeader] = ()) -> None:
        self.samples = 0
        self._serial = count()
        self._chunks: dict[int, tuple[int, ChunkHeader]] = {}
        """Serial of arrival and chunk, by the chunk's identity."""
        self._of: dict[int, dict[int, ChunkHeader]] = {}
        """Chunks by serial, by version."""
        self._ages: list[int] = []
        """Heap of versions. It may hold some that are gone, or twice."""
        self._producers: Counter[int] = Counter()
        self._last: Counter[int] = Counter()
        """Chunks marked as the last of their round, by producer."""
        self._arenas: dict[int, dict[int, ChunkHeader]] = {}
        """Chunks by serial, by the arena that holds them."""
        self.extend(chunks)

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[ChunkHeader]:
        return (chunk for _, chunk in self._chunks.values())

    @overload
    def __getitem__(self, index: int) -> ChunkHeader: ...

    @overload
    def __getitem__(self, index: slice) -> list[ChunkHeader]: ...

    def __getitem__(self, index: int | slice) -> ChunkHeader | list[ChunkHeader]:
        if isinstance(index, slice) and index.start is None and index.step is None and (index.stop or 0) >= 0:
            return list(islice(self, index.stop))
        return list(self)[index]

    @property
    def producers(self) -> int:
        """Number of producers that have a chunk here."""
        return len(self._producers)

    @property
    def handed_over(self) -> int:
        """Number of producers that have a chunk here which is marked as their last one of the round."""
        return len(self._last)

    @property
    def versions(self) -> Iterable[int]:
        """Versions of the policies that made them, each once."""
        return self._of.keys()

    def in_arena(self, arena: int) -> Collection[ChunkHeader]:
        """Return the chunks whose bodies lie in this arena, in order of arrival."""
        return self._arenas.get(arena, {}).values()

    def take_oldest(self, overtaken: Callable[[int], bool]) -> list[ChunkHeader]:
        """Remove and return the chunks of the versions for which this holds, in order of arrival.

        Parameters
        ----------
        overtaken
            tells of a version. If it holds, it holds for all older ones.
        """
        gone: set[int] = set()
        while self._ages and (self._ages[0] not in self._of or overtaken(self._ages[0])):
            gone.add(heapq.heappop(self._ages))
        found = [item for version in gone for item in self._of.get(version, {}).items()]
        chunks = [chunk for _, chunk in sorted(found, key=itemgetter(0))]
        self.remove(chunks)
        return chunks

    def append(self, chunk: ChunkHeader) -> None:
        """Add a chunk that arrived."""
        serial = next(self._serial)
        self._chunks[id(chunk)] = serial, chunk
        if chunk.version not in self._of:
            self._of[chunk.version] = {}
            heapq.heappush(self._ages, chunk.version)
            if len(self._ages) > 2 * len(self._of) + 64:
                self._ages = sorted(self._of)
        self._of[chunk.version][serial] = chunk
        self._arenas.setdefault(chunk.slot.arena, {})[serial] = chunk
        self._producers[chunk.producer] += 1
        if chunk.last:
            self._last[chunk.producer] += 1
        self.samples += chunk.count

    def extend(self, chunks: Iterable[ChunkHeader]) -> None:
        """Add chunks that arrived, oldest first."""
        for chunk in chunks:
            self.append(chunk)

    def remove(self, chunks: Iterable[ChunkHeader]) -> None:
        """Remove these chunks. `KeyError` if one is not here."""
        for chunk in chunks:
            serial, _ = self._chunks.pop(id(chunk))
            for groups, key in ((self._of, chunk.version), (self._arenas, chunk.slot.arena)):
                alike = groups[key]
                del alike[serial]
                if not alike:
                    del groups[key]
            _less(self._producers, chunk.producer)
            if chunk.last:
                _less(self._last, chunk.producer)
            self.samples -= chunk.count


def _less(counts: Counter[int], key: int) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
