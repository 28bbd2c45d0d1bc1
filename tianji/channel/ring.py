"""Queue of small frames in shared memory from one process to another, and the bell that wakes its reader.

Why it is safe without locks, on x86-64 and on arm64
----------------------------------------------------
Each word of the ring's head has one writer. CPython's `memoryview` stores and loads it as aligned 8 bytes, which neither
machine tears. Order needs fences, because arm64 may reorder plain loads and stores that another process sees:

- The writer fills the frame and its slot. Fence. Then it advances `written`.
- The reader loads `written`. Fence. Then it reads the frame and its slot. Fence. Then it advances `read` or returns credit.
- Before it sleeps, the reader stores `asleep`. Fence. Then it loads `written` again. The writer stores `written`. Fence. Then
  it loads `asleep`. At least one of the two sees the other's store (Dekker), so the reader never sleeps over a frame.

A fence (`own_fence`) releases a lock and takes it again. The release is a store-release, and taking is a load-acquire of the
same word. On arm64 (RCsc) an acquire is ordered after a release that precedes it in program order. So all accesses before the
fence are ordered before all accesses after it. On x86-64 both are locked instructions, each a full fence.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable


def own_fence() -> Callable[[], None]:
    """Make a memory fence for one thread. It orders all loads and stores before a call before all those after it.

    Each fence has its own lock, so that two threads of a process may fence at the same time. An end of an edge is used by one
    thread at a time and has one fence.
    """
    lock = threading.Lock()
    lock.acquire()
    give_up, take_back = lock.release, lock.acquire

    def fence() -> None:
        give_up()
        take_back()

    return fence


WRITTEN, READ, ASLEEP = 0, 8, 16
"""Indexes of the head's words. Each word has its own cache line."""
HEAD_BYTES = 192
WRAP = 0xFFFFFFFF
"""Marker in place of a length: the next frame begins at the start of the ring."""


class RingBroken(Exception):
    """Error: the other side wrote something that is not a valid ring."""


def ring_bytes(capacity: int) -> int:
    """Size in bytes of a ring with room for `capacity` bytes of frames, a multiple of 64."""
    return HEAD_BYTES + -(-capacity // 64) * 64


class _Ring:
    def __init__(self, memory: memoryview) -> None:
        self._words = memory[:HEAD_BYTES].cast("q")
        self._frames = memory[HEAD_BYTES:]
        self._lengths = self._frames.cast("I")
        self._size = len(self._frames)
        self._fence = own_fence()


class RingWriter(_Ring):
    """Writing side of a ring."""

    def __init__(self, memory: memoryview) -> None:
        super().__init__(memory)
        self._written = 0

    def put(self, frame: bytes) -> bool:
        """Append a frame. False if there is no room now."""
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
        # Two fences: one between the frame and the word, one between the word and the check for a sleeping reader.
        fence = self._fence
        fence()
        self._words[WRITTEN] = written
        fence()
        return True

    def reader_asleep(self) -> bool:
        """Whether the reader must be woken."""
        return bool(self._words[ASLEEP])


class RingReader(_Ring):
    """Reading side of a ring."""

    def __init__(self, memory: memoryview) -> None:
        super().__init__(memory)
        self._read = 0
        self._known = 0

    def get(self) -> bytes | None:
        """Take the oldest frame, or None.

        Raises
        ------
        RingBroken
            if the ring is inconsistent.
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
            # Room is returned when all known frames are read: one fence for many frames.
            self._fence()
            self._words[READ] = read
        return frame

    def _look(self) -> bool:
        """Load how far the ring is written. False if there is nothing new."""
        known = self._words[WRITTEN]
        if known == self._read:
            return False
        if not 0 < known - self._read <= self._size:
            raise RingBroken(f"{known - self._read} bytes in a ring of {self._size}")
        self._known = known
        self._fence()
        return True

    def empty(self) -> bool:
        """Whether the ring has no frame."""
        return self._read == self._known and self._words[WRITTEN] == self._read

    def sleep(self) -> None:
        """Ask to be woken. The caller must fence and check the ring again before it sleeps."""
        self._words[ASLEEP] = 1

    def wake(self) -> None:
        """Withdraw the request of `sleep`."""
        self._words[ASLEEP] = 0


class Bell:
    """Pipe whose reading end becomes readable when a process rings.

    It is not an eventfd, because other processes of the same user can open a pipe's ends by their numbers in /proc.
    """

    def __init__(self) -> None:
        self.reading_fd, self.writing_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self) -> None:
        """Wake the waiting process."""
        ring(self.writing_fd)

    def clear(self) -> None:
        """Clear all rings so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.reading_fd, 65536)

    def ring_everybody(self) -> None:
        """Wake all edge-triggered watchers, and leave the bell readable, so that late watchers are woken at once.

        The pipe is emptied first, because a write wakes edge-triggered watchers only if the pipe was empty.
        """
        self.clear()
        self.ring()

    def close(self) -> None:
        """Close both ends. Closing twice is allowed."""
        for fd in (self.reading_fd, self.writing_fd):
            if fd >= 0:
                os.close(fd)
        self.reading_fd = self.writing_fd = -1


def ring(writing_fd: int) -> None:
    """Ring a bell by its writing end. Does nothing if the bell is full of rings or its owner has ended."""
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(writing_fd, b"\1")
