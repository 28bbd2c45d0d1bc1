"""Contract of workers, which compute for roles, and their access to chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.base import Slices, complete
from tianji.algorithms.flat import Vector
from tianji.algorithms.state import State
from tianji.averaging import Stamps
from tianji.layout import ChunkLayout
from tianji.messages import Episode, SlotRef
from tianji.telemetry import Account

Views = Mapping[str, NDArray[Any]]
Body = Callable[[SlotRef], Views]
"""Function from a slot to arrays over its memory."""


Memory = dict[str, Any]
"""State of a sampler between two fragments, as data for JSON."""


class Worker(ABC):
    """Worker that computes for a role.

    Attributes
    ----------
    remembers
        whether a sampler keeps its state of the start of each fragment.
    """

    cause: ClassVar[str | None] = "update"
    """Cause of its busy time in the account of time. None: the worker keeps the account itself."""

    def __init__(self) -> None:
        self.account = Account()
        self.remembers = False
        self.completed: str | None = None
        """Name under which the work that just ended is recorded in the account. None: it was not a whole piece of work."""

    @abstractmethod
    def work(self, argument: Any) -> Slices[Any]:
        """Do the work in slices, and return its result."""

    def run(self, argument: Any) -> Any:
        """Do all of `work` without a pause."""
        return complete(self.work(argument))

    def cut(self) -> None:
        """End the current work with the next slice, with a partial result."""
        raise RuntimeError("this work has a meaning only as a whole")

    def renewed(self, version: int) -> None:
        """Note that the weights were replaced by those of this version during the work."""
        raise RuntimeError("this work does not follow weights that come")

    def weights(self) -> Vector:
        """Weights of the worker. The weights edge writes those of an actor and reads those of a learner."""
        return np.zeros(0, np.float32)

    def published(self) -> Vector:
        """Those of its weights that the weights edge sends: what actors need."""
        return self.weights()

    def progress(self) -> Mapping[str, float] | None:
        """Counters for progress messages, besides the role's own. None: no such messages."""
        return None

    def metrics(self) -> Mapping[str, float]:
        """Latest values of what it measures, for progress messages alone."""
        return {}

    def take_finished(self) -> Sequence[Episode]:
        """Episodes that ended since the last call."""
        return ()

    def save(self, role: Mapping[str, Any]) -> None:
        """Store the state of the worker and of its role."""
        raise RuntimeError("this role has no state to store")

    def restore(self, state: State) -> None:
        """Continue from the state of another process. `ValueError` if its sizes differ."""
        raise RuntimeError("this role has no state to go on from")

    def after(self, steps: int) -> Memory | None:
        """State after so many environment steps, with which another process's sampler goes on; None: it is not kept.

        Raises
        ------
        Unknown
            if an environment cannot give its state.
        """
        raise RuntimeError("this worker has no environments")

    def close(self) -> None:  # noqa: B027 (most have nothing to free)
        """Free environments."""


class ModelWorker(Worker):
    """Worker that exchanges models, for learners and the Root."""

    @abstractmethod
    def inbox(self, port: str) -> Vector:
        """Memory into which a model from this port is written, with its stamps."""

    @abstractmethod
    def stamps(self, port: str) -> Stamps:
        """Stamps of the model in the inbox of this port."""

    @abstractmethod
    def push(self, stamps: Stamps) -> Vector:
        """Model to send, with these stamps."""


class Idle(Worker):
    """Worker of a role that computes nothing."""

    def work(self, argument: Any) -> Slices[Any]:
        raise TypeError(f"this role has no work, yet was given {argument!r}")


def chunk_views(layout: ChunkLayout, memory: Callable[[SlotRef], memoryview]) -> Body:
    """Function that gives views of a slot. They are cached, and made again if another process's memory replaces the slot."""
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
