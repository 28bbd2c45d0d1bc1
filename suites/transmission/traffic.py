"""Workloads of the transmission suite, as data: what is sent, and where."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ARENA_BYTES, MOST_SLOTS = 1 << 24, 1024
FEW_SLOTS, FEWEST_SLOTS, MEMORY_BYTES = 4, 2, 1 << 30
GROUP_MESSAGES, GROUP_BYTES = 64, 1 << 20


class Traffic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pattern of traffic in one place."""

    id: str
    title: str
    direction: Literal["samples", "weights"]
    """`samples`: every explorer sends to the learner, which reads every byte. `weights`: the learner sends one vector to all
    explorers, and each has its own copy before the next one is sent."""
    testbed: Literal["local", "netns"]
    """One host; or two emulated ones, the learner on the first and the explorers on the second."""
    link_bits_per_s: int | None = None
    """Rate of the link between two hosts; None: unlimited."""
    ceiling: str
    """The pipe that shows what the hardware can do here."""

    @property
    def nodes(self) -> int:
        return 1 if self.testbed == "local" else 2


class Extent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Extent to which a workload is measured."""

    sizes: tuple[int, ...]
    """Bytes of a message, each a multiple of 8."""
    explorers: tuple[int, ...]
    window_s: float
    """About how long one size is measured."""
    trips: int
    """Round trips of each size; where one explorer is alone."""


def in_flight(size_bytes: int, explorers: int) -> int:
    """Messages that one explorer may have in flight, in every pipe: 16 MiB worth, between 4 and 1,024 messages.

    The minimum is 2 messages if 4 of all explorers would exceed 1 GiB.
    """
    slots = min(MOST_SLOTS, ARENA_BYTES // size_bytes)
    if slots >= FEW_SLOTS:
        return slots
    return FEW_SLOTS if FEW_SLOTS * size_bytes * explorers <= MEMORY_BYTES else FEWEST_SLOTS


def group(size_bytes: int) -> int:
    """Messages that are sent or released at once, where a pipe can: at most 64, and at most 1 MiB."""
    return max(1, min(GROUP_MESSAGES, GROUP_BYTES // size_bytes))
