"""A queue of small frames in shared memory, from one process to another, and the bell that wakes its reader.

Why it is safe without locks, on x86-64 and on arm64
----------------------------------------------------
Each word of the ring's head has one writer; it is an aligned 8-byte store or load of CPython's `memoryview`, which neither
machine tears. What needs care is order, because arm64 may reorder plain loads and stores that another process sees:

- writer: *fill the frame (and the slot that it speaks of)*, fence, *advance `written`*;
- reader: *load `written`*, fence, *read the frame (and the slot)*; when done, fence, *advance `read`* (or put the credit);
- sleeping: the reader stores `asleep`, fence, loads `written` once more; the writer stores `written`, fence, loads
  `asleep`. Of two such sequences at least one sees the other's store (Dekker), so nobody sleeps over a frame.

A fence (`own_fence`) gives up a lock and takes it back. Giving up is a store-release, taking is a load-acquire of the
same word, and an acquire that follows a release in program order is ordered after it on arm64 (RCsc); so all that stands
before the fence is ordered before all that stands after it. On x86-64 both are locked instructions, each a full fence.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable


def own_fence() -> Callable[[], None]:
    """A fence for one thread: it orders all loads and stores before a call before all that follow it.

    Whoever uses it has a lock of its own, so that two threads of a process may fence at the same time. An end of an edge is
    used by one thread at a time, and has one.
    """
    lock = threading.Lock()
    lock.acquire()
    give_up, take_back = lock.release, lock.acquire

    def fence() -> None:
        give_up()
        take_back()

    return fence


WRITTEN, READ, ASLEEP = 0, 8, 16
"""Words of the head, on cache lines of their own."""
HEAD_BYTES = 192
WRAP = 0xFFFFFFFF
"""Stands where a length would, when the next frame begins at the start again."""


class RingBroken(Exception):
    """The other side wrote what no ring contains."""


def ring_bytes(capacity: int) -> int:
    """Memory of a ring with room for this many bytes of frames; a multiple of 64."""
    return HEAD_BYTES + -(-capacity // 64) * 64


class _Ring:
    def __init__(self, memory: memoryview) -> None:
        self._words = memory[:HEAD_BYTES].cast("q")
        self._frames = memory[HEAD_BYTES:]
        self._lengths = self._frames.cast("I")
        self._size = len(self._frames)
        self._fence = own_fence()


class RingWriter(_Ring):
    """The writing side."""

    def __init__(self, memory: memoryview) -> None:
        super().__init__(memory)
        self._written = 0

    def put(self, frame: bytes) -> bool:
        """Append a frame; False when there is no room now."""
        length, size, written = len(frame), self._size, self._written
        need = (length + 11) & ~7
        position = written % size
        skipped = size - position if position + need > size else 0
        if written + skipped + need - self._words[READ] > size:
            return False
        if skipped:
            self._lengths[position >> 2] = WRAP
            position = 0
        self._lengths[position >> 2] = length
        self._frames[position + 4 : position + 4 + length] = frame
        self._written = written = written + skipped + need
        # Two fences: the frame before the word, and the word before whether the reader sleeps.
        fence = self._fence
        fence()
        self._words[WRITTEN] = written
        fence()
        return True

    def reader_asleep(self) -> bool:
        """Whether the reader must be woken."""
        return bool(self._words[ASLEEP])


class RingReader(_Ring):
    """The reading side."""

    def __init__(self, memory: memoryview) -> None:
        super().__init__(memory)
        self._read = 0
        self._known = 0

    def get(self) -> bytes | None:
        """The oldest frame, or None.

        Raises
        ------
        RingBroken
            when the ring is inconsistent: whoever writes it is no ring writer.
        """
        read, size = self._read, self._size
        if read == self._known and not self._look():
            return None
        position = read % size
        length = self._lengths[position >> 2]
        if length == WRAP:
            read += size - position
            position = 0
            length = self._lengths[0]
        end = position + 4 + length
        self._read = read = read + ((length + 11) & ~7)
        if read > self._known or end > size:
            raise RingBroken(f"a frame of {length} bytes, which was not written")
        frame = bytes(self._frames[position + 4 : end])
        if read == self._known:
            # Room is given back when all that was known is read: a fence for many frames.
            self._fence()
            self._words[READ] = read
        return frame

    def _look(self) -> bool:
        """Learn how far the ring is written; False when there is nothing new."""
        known = self._words[WRITTEN]
        if known == self._read:
            return False
        if not 0 < known - self._read <= self._size:
            raise RingBroken(f"{known - self._read} bytes in a ring of {self._size}")
        self._known = known
        self._fence()
        return True

    def empty(self) -> bool:
        """Whether there is nothing to get."""
        return self._read == self._known and self._words[WRITTEN] == self._read

    def sleep(self) -> None:
        """Ask to be woken. The caller fences and looks once more before it sleeps."""
        self._words[ASLEEP] = 1

    def wake(self) -> None:
        """No need to ring any more."""
        self._words[ASLEEP] = 0


class Bell:
    """A pipe whose reading end becomes readable when somebody rings.

    A pipe and not an eventfd, because a process of the same user can open its ends by their numbers in /proc.
    """

    def __init__(self) -> None:
        self.reading_fd, self.writing_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self) -> None:
        """Wake whoever waits."""
        ring(self.writing_fd)

    def clear(self) -> None:
        """Hear all rings so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.reading_fd, 65536)

    def ring_everybody(self) -> None:
        """Wake all that watch by edge, however many, and leave the bell readable: who comes late is woken at once.

        The pipe is emptied first, since a write wakes the watchers of a pipe only where it was empty.
        """
        self.clear()
        self.ring()

    def close(self) -> None:
        """Close both ends; twice is allowed."""
        for fd in (self.reading_fd, self.writing_fd):
            if fd >= 0:
                os.close(fd)
        self.reading_fd = self.writing_fd = -1


def ring(writing_fd: int) -> None:
    """Ring a bell by its writing end. One that is full of rings, or whose owner is gone, needs none."""
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(writing_fd, b"\1")
