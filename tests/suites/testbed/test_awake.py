"""Idle cores that are kept awake."""

import os
import struct

import pytest

from suites.testbed.awake import LATENCY, awake


def asked_for_us():
    """The longest wake-up that anybody asks the kernel for, in microseconds."""
    reader = os.open(LATENCY, os.O_RDONLY)
    try:
        return struct.unpack("i", os.read(reader, 4))[0]
    finally:
        os.close(reader)


@pytest.mark.skipif(not os.access(LATENCY, os.R_OK | os.W_OK), reason=f"{LATENCY} cannot be read and written")
def test_the_kernel_is_asked_as_long_as_the_block_lasts():
    before = asked_for_us()
    with awake() as kept:
        assert kept
        assert asked_for_us() == 0
    assert asked_for_us() == before


def test_where_it_cannot_be_asked_for_nothing_happens(tmp_path):
    with awake(tmp_path / "missing") as kept:
        assert kept is False
    assert not list(tmp_path.iterdir())


def test_zero_microseconds_are_asked_for(tmp_path):
    (tmp_path / "device").touch()
    with awake(tmp_path / "device") as kept:
        assert kept is True
    assert (tmp_path / "device").read_bytes() == struct.pack("i", 0)
