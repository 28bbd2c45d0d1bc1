"""Cores that poll for work while they are idle, instead of sleeping.

A budget of cores is a slice of each few milliseconds. A core that sleeps in between comes back slowly, in a virtual machine
above all. So the only busy node of several would be slower than it is among busy ones.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LATENCY = Path("/dev/cpu_dma_latency")
"""The kernel's power-management quality of service (PM QoS). Whoever has it open asks for a longest wake-up, in microseconds: a
signed number of 32 bits."""


@contextmanager
def awake(device: Path = LATENCY) -> Iterator[bool]:
    """Keep idle cores awake until the block is left, or this process has ended.

    Yields
    ------
    whether that could be asked for. It takes root's rights, and a kernel that has the device.
    """
    try:
        asked = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        os.write(asked, struct.pack("i", 0))
        yield True
    finally:
        os.close(asked)
