"""Shared memory without names: files (memfd) that processes open by their numbers in /proc.

The kernel frees such a file when the last process that has it open or mapped ends, even if that process is killed. So nothing
is left behind, and no clean-up is needed at the next start. Files are sealed at their size, so that no process can shrink
memory that another one uses.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path

from tianji.channel.base import ChannelError

PAGE = mmap.PAGESIZE
LINE = 64
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
LABEL = "tianji-"


def anonymous_file(label: str, size_bytes: int) -> int:
    """Create a nameless shared-memory file and return its descriptor, which the caller closes. /proc shows `tianji-LABEL`."""
    fd = os.memfd_create(LABEL + label, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size_bytes)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


def open_of(pid: int, fd: int, flags: int) -> int:
    """Open a file or pipe that another process has open.

    Raises
    ------
    ChannelError
        if that process belongs to another host or user, or has ended.
    """
    try:
        return os.open(f"/proc/{pid}/fd/{fd}", flags | os.O_CLOEXEC)
    except OSError as error:
        raise ChannelError(
            f"cannot open descriptor {fd} of process {pid} ({error.strerror}): "
            "shm:// joins processes of one host and user; use tcp:// between hosts"
        ) from error


def has_ended(pid: int) -> bool:
    """Whether a process has ended or is about to: its memory is gone, and its descriptors are or will be.

    A process that was killed may stay visible for a while, until it is collected by its parent.
    """
    try:
        return Path(f"/proc/{pid}/statm").read_bytes().startswith(b"0 ")
    except OSError:
        return True


def open_file_of(pid: int, fd: int, size_bytes: int, *, writable: bool) -> int:
    """Open another process's memory file and return its descriptor, which the caller closes.

    Raises
    ------
    ChannelError
        as `open_of`, and if it is not a memory file, is not sealed, or is too small.
    """
    ours = open_of(pid, fd, os.O_RDWR if writable else os.O_RDONLY)
    try:
        label = os.readlink(f"/proc/self/fd/{ours}")
        if not label.startswith(f"/memfd:{LABEL}") or fcntl.fcntl(ours, fcntl.F_GET_SEALS) & SEALS != SEALS:
            raise ChannelError(f"descriptor {fd} of process {pid} is not a sealed memory file")
        if (size := os.fstat(ours).st_size) < size_bytes:
            raise ChannelError(f"memory of process {pid} has {size} bytes where {size_bytes} were agreed")
    except BaseException:
        os.close(ours)
        raise
    return ours


def map_file(fd: int, size_bytes: int, *, writable: bool) -> memoryview:
    """Map a memory file. The mapping lives as long as the view or anything made from it."""
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    return memoryview(mmap.mmap(fd, size_bytes, prot=protection))


class Arena:
    """Slots of equal size in a mapped memory file.

    Parameters
    ----------
    fd
        descriptor of a file of at least `Arena.size_bytes(...)`. The caller closes it.
    slots, slot_bytes
        number of slots, and bytes that each must hold.
    writable
        False maps it read-only.
    """

    def __init__(self, fd: int, slots: int, slot_bytes: int, *, writable: bool = True) -> None:
        self.fd = fd
        self.slots = slots
        stride = self._stride(slot_bytes)
        self._all = view = map_file(fd, self.size_bytes(slots, slot_bytes), writable=writable)
        self._slot_bytes, self._gapless = slot_bytes, stride == slot_bytes
        self.views = [view[n * stride : n * stride + slot_bytes] for n in range(slots)]
        """Memory of each slot. The mapping lives as long as any view or array made from it."""

    @staticmethod
    def _stride(slot_bytes: int) -> int:
        unit = LINE if slot_bytes < PAGE else PAGE
        return -(-slot_bytes // unit) * unit

    def pieces(self, numbers: list[int], sizes: list[int]) -> list[memoryview]:
        """Memory of bodies, by slot and size in bytes. Full neighbours are one piece, which makes a system call cheaper."""
        if sizes.count(self._slot_bytes) != len(sizes):
            return [self.views[number][:size] for number, size in zip(numbers, sizes, strict=True)]
        first, count, stride = numbers[0], len(numbers), self._slot_bytes
        if self._gapless and numbers == list(range(first, first + count)):
            return [self._all[first * stride : (first + count) * stride]]
        return [self.views[number] for number in numbers]

    @classmethod
    def size_bytes(cls, slots: int, slot_bytes: int) -> int:
        """Size of the file in bytes. Small slots are aligned to cache lines, large ones to pages."""
        return max(1, slots * cls._stride(slot_bytes))

    def slot(self, number: int) -> memoryview:
        """The memory of one slot, without a copy."""
        if not 0 <= number < self.slots:
            raise IndexError(f"slot {number} of an arena of {self.slots}")
        return self.views[number]
