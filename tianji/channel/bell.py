"""The weights edge of the `ipc` backend: the vector stands in shared memory, and each reader has a bell.

A bell is an eventfd. Ringing it is one system call of the publisher's own thread, and a reader's poller wakes on it. A
ZeroMQ socket here cost two more thread changes a reader, and on a busy core the publisher's I/O thread waited behind
the first actor that it had woken before it could wake the second (docs/performance.md).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tianji.channel.arena import WeightStore
from tianji.channel.base import ChannelError, WeightsInlet, WeightsOutlet


def make_bell() -> int:
    """Descriptor of a new bell, for a publisher and one reader; the caller closes it."""
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)


class BellWeightsOutlet(WeightsOutlet):
    """Publishing end: writes the store, then rings every reader's bell."""

    def __init__(self, store: WeightStore, bells: Sequence[int]) -> None:
        self._store = store
        self._bells = tuple(bells)

    def publish(self, version: int, weights: NDArray[np.float32]) -> None:
        latest = self._store.version
        if latest is not None and version <= latest:
            raise ChannelError(f"version {version} after {latest}: versions must rise")
        self._store.write(version, weights)
        for bell in self._bells:
            os.eventfd_write(bell, 1)

    def close(self) -> None:
        self._bells = ()


class BellWeightsInlet(WeightsInlet):
    """Reading end: wakes on its bell, then reads the newest version, however often it rang."""

    def __init__(self, store: WeightStore, bell: int) -> None:
        self.socket = bell
        self._store = store
        self._seen: int | None = None

    def latest(self, out: NDArray[np.float32]) -> int | None:
        try:
            os.eventfd_read(self.socket)
        except BlockingIOError:
            # Silent; but a reader that has read nothing yet may have joined after the bell was heard by another.
            if self._seen is not None:
                return None
        version = self._store.version
        if version is None or version == self._seen:
            return None
        self._seen = self._store.read(out)
        return self._seen

    def close(self) -> None:
        self.socket = None
