"""Shared memory: arenas, what may be opened of another process, and the weight board."""

import mmap
import os
import signal
import time

import numpy as np
import pytest

from tianji.channel.arena import PAGE, Arena, anonymous_file, open_file_of
from tianji.channel.base import ChannelError
from tianji.channel.board import WeightBoard


@pytest.mark.parametrize("slot_bytes", [1, 64, 100, 5000, 3 * PAGE])
def test_slots_are_apart_and_shared_between_mappings(slot_bytes):
    fd = anonymous_file("test", Arena.size_bytes(3, slot_bytes))
    ours, theirs = Arena(fd, 3, slot_bytes), Arena(fd, 3, slot_bytes, writable=False)
    for i in range(3):
        ours.slot(i)[:] = bytes([i + 1]) * slot_bytes
    for i in range(3):
        assert bytes(theirs.slot(i)) == bytes([i + 1]) * slot_bytes
        assert theirs.slot(i).readonly
        address = np.frombuffer(theirs.slot(i), np.uint8).ctypes.data
        assert address % (64 if slot_bytes < PAGE else PAGE) == 0
    with pytest.raises(IndexError, match="slot 3"):
        ours.slot(3)
    with pytest.raises(IndexError, match="slot -1"):
        ours.slot(-1)
    os.close(fd)


def test_memory_outlives_its_descriptor_and_goes_with_its_last_view():
    before = set(os.listdir("/proc/self/fd"))
    fd = anonymous_file("test", Arena.size_bytes(1, 10))
    arena = Arena(fd, 1, 10)
    os.close(fd)
    view = np.frombuffer(arena.slot(0), np.uint8)
    del arena
    assert view.sum() == 0
    del view
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_file_of_another_process_is_opened_only_when_it_is_what_was_agreed(tmp_path):
    fd = anonymous_file("test", 100)
    ours = open_file_of(os.getpid(), fd, 100, writable=False)
    os.close(ours)
    with pytest.raises(ChannelError, match="100 bytes where 101"):
        open_file_of(os.getpid(), fd, 101, writable=True)
    os.close(fd)
    with pytest.raises(ChannelError, match="one host and user"):
        open_file_of(os.getpid(), fd, 100, writable=True)
    plain = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(plain, 100)
    unsealed = os.memfd_create("tianji-unsealed")
    os.ftruncate(unsealed, 100)
    for other in (plain, unsealed):
        with pytest.raises(ChannelError, match="not a sealed memory file"):
            open_file_of(os.getpid(), other, 100, writable=True)
        os.close(other)


def test_memory_cannot_be_taken_away_under_a_reader():
    fd = anonymous_file("test", PAGE)
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    os.close(fd)


def test_a_board_says_nothing_before_the_first_vector():
    fd = anonymous_file("test", WeightBoard.size_bytes(3))
    board = WeightBoard(fd, 3)
    out = np.ones(3, np.float32)
    assert board.version is None
    assert board.read(out) is None
    for version in (0, 1, 5, 6, 7, 8):
        board.write(version, np.full(3, version, np.float32))
        assert board.version == board.read(out) == version
        assert out.tolist() == [version] * 3
    os.close(fd)


def test_no_reader_in_any_process_keeps_a_torn_vector():
    """A child overwrites as fast as it can; a vector of which all elements are equal was not torn."""
    size, seconds = 300_000, 1.0
    fd = anonymous_file("test", WeightBoard.size_bytes(size))
    go = mmap.mmap(-1, 1)
    child = os.fork()
    if child == 0:
        try:
            board, version = WeightBoard(fd, size), 0
            while not go[0]:
                board.write(version, np.full(size, version % 2**20, np.float32))
                version += 1
        finally:
            os._exit(0)
    board, out, seen = WeightBoard(fd, size, writable=False), np.zeros(size, np.float32), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        version = board.read(out)
        if version is not None:
            assert out.min() == out.max() == version % 2**20
            seen.append(version)
    go[0] = 1
    os.waitpid(child, 0)
    os.close(fd)
    assert seen == sorted(seen)
    assert len(set(seen)) > 10


def test_a_writer_that_dies_within_a_vector_leaves_the_one_before():
    fd = anonymous_file("test", WeightBoard.size_bytes(4))
    board, out = WeightBoard(fd, 4), np.zeros(4, np.float32)
    board.write(0, np.full(4, 1, np.float32))
    child = os.fork()
    if child == 0:
        try:

            class Deadly:
                """Assigning it to a place of the board is the death of whoever does."""

                def __array__(self, dtype=None, copy=None):
                    os.kill(os.getpid(), signal.SIGKILL)

            WeightBoard(fd, 4).write(1, Deadly())
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert board.read(out) == 0
    assert out.tolist() == [1] * 4
    os.close(fd)
