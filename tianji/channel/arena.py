"""Shared memory without names: files (memfd) that processes open by their numbers in /proc.

Such a file belongs to whoever has it open or mapped. When the last of them ends, however it ends, the kernel frees it:
nothing can be left behind, and nothing needs to be cleaned up at the next start. Files are sealed at their size, so that
no process can take the memory away under another.
"""

from __future__ import annotations

import fcntl
import mmap
import os

from tianji.channel.base import ChannelError

PAGE = mmap.PAGESIZE
LINE = 64
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
LABEL = "tianji-"


def anonymous_file(label: str, size_bytes: int) -> int:
    """Descriptor of a nameless shared-memory file of this size; `tianji-` and `label` show in /proc. The caller closes it."""
    fd = os.memfd_create(LABEL + label, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size_bytes)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


def open_of(pid: int, fd: int, flags: int) -> int:
    """Open a file or pipe that another process has open.

    Raises
    ------
    ChannelError
        when that process is not of this host and user, or is gone.
    """
    try:
        return os.open(f"/proc/{pid}/fd/{fd}", flags | os.O_CLOEXEC)
    except OSError as error:
        raise ChannelError(
            f"cannot open descriptor {fd} of process {pid} ({error.strerror}): "
            "shm:// joins processes of one host and user; use tcp:// between hosts"
        ) from error


def open_file_of(pid: int, fd: int, size_bytes: int, *, writable: bool) -> int:
    """Open another process's memory file; the caller closes it.

    Raises
    ------
    ChannelError
        also when it is not a memory file of ours, is not sealed, or is smaller than it must be.
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
    """Slots of equal size over a memory file, mapped once.

    Parameters
    ----------
    fd
        of a file of at least `Arena.size_bytes(...)`. It stays the caller's to close.
    slots, slot_bytes
        how many, and the room that each must have.
    writable
        False maps it for reading alone.
    """

    def __init__(self, fd: int, slots: int, slot_bytes: int, *, writable: bool = True) -> None:
        self.fd = fd
        self.slots = slots
        stride = self._stride(slot_bytes)
        view = map_file(fd, self.size_bytes(slots, slot_bytes), writable=writable)
        self.views = [view[n * stride : n * stride + slot_bytes] for n in range(slots)]
        """The memory of each slot. What is made from a view keeps the mapping alive."""

    @staticmethod
    def _stride(slot_bytes: int) -> int:
        unit = LINE if slot_bytes < PAGE else PAGE
        return -(-slot_bytes // unit) * unit

    @classmethod
    def size_bytes(cls, slots: int, slot_bytes: int) -> int:
        """Size of the file. Small slots begin on cache lines of their own, large ones on pages."""
        return max(1, slots * cls._stride(slot_bytes))

    def slot(self, number: int) -> memoryview:
        """The memory of one slot, without a copy."""
        if not 0 <= number < self.slots:
            raise IndexError(f"slot {number} of an arena of {self.slots}")
        return self.views[number]
