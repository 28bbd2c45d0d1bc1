"""The contract of what roles have computed for them, and how it reads chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.networks import Vector
from tianji.averaging import Stamp
from tianji.layout import ChunkLayout
from tianji.messages import SlotRef
from tianji.telemetry import Account

Views = dict[str, NDArray[Any]]
Body = Callable[[SlotRef], Views]
"""From the name of a slot to arrays over its memory."""


class Worker(Protocol):
    """Performs a role's work."""

    account: Account

    def run(self, argument: Any) -> Any:
        """Do the work and return its result."""

    def weights(self) -> Vector:
        """The weights it works with: an actor's are written by the weights edge, a learner's are read by it."""

    def close(self) -> None:
        """Free environments."""


class ModelWorker(Worker, Protocol):
    """A worker that exchanges models with others: a learner's with the Root's."""

    def inbox(self, port: str) -> Vector:
        """Where a model that comes on this port is written, with its stamps."""

    def stamps(self, port: str) -> Sequence[Stamp]:
        """The stamps of what lies in the inbox of this port."""

    def push(self, stamps: Sequence[Stamp]) -> Vector:
        """The model to send, with these stamps."""


class Idle:
    """The worker of a role that computes nothing."""

    def __init__(self) -> None:
        self.account = Account()

    def run(self, argument: Any) -> Any:
        raise TypeError(f"this role has no work, yet was given {argument!r}")

    def weights(self) -> Vector:
        return np.zeros(0, np.float32)

    def close(self) -> None:
        """Nothing to free."""


def chunk_views(layout: ChunkLayout, memory: Callable[[SlotRef], memoryview]) -> Body:
    """Views of slots, made once for each slot, and again when another process's memory has taken its place."""
    cache: dict[SlotRef, tuple[memoryview, Views]] = {}

    def body(slot: SlotRef) -> Views:
        place = memory(slot)
        try:
            known, views = cache[slot]
            if known is place:
                return views
        except KeyError:
            pass
        views = layout.views(place)
        cache[slot] = place, views
        return views

    return body
