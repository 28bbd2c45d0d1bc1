"""Worker of a Root, which computes means of models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tianji.algorithms.base import Slices
from tianji.algorithms.flat import Vector
from tianji.algorithms.normalisation import Sizes, merged
from tianji.averaging import Stamps, keep, mark, mean, message_size, stamps_of, statistics_of
from tianji.roles.root import Average, Averaged
from tianji.worlds.workers import ModelWorker


class Averager(ModelWorker):
    """Keeps the latest model of each port, and the latest mean in the message that takes it on.

    Statistics are merged, not averaged. Each port's are those of everything that was counted below it.
    """

    def __init__(self, parameters: int, ports: Sequence[str], sizes: Sizes | None = None) -> None:
        super().__init__()
        self._parameters, self._sizes = parameters, sizes
        size = message_size(parameters, sizes.all if sizes else 0)
        self._inboxes = {port: np.zeros(size, np.float32) for port in ports}
        self._outbox = np.zeros(size, np.float32)

    def work(self, argument: Average) -> Slices[Averaged]:
        self.weights()[:] = mean([self._inboxes[port][: self._parameters] for port in argument.ports], argument.samples)
        if self._sizes is not None:
            tables = [statistics_of(self._inboxes[port], self._sizes.all) for port in argument.ports]
            keep(self._outbox, merged(tables, self._sizes))
        yield
        self.completed = "mean"
        return Averaged()

    def weights(self) -> Vector:
        return self._outbox[: self._parameters]

    def inbox(self, port: str) -> Vector:
        return self._inboxes[port]

    def stamps(self, port: str) -> Stamps:
        return stamps_of(self._inboxes[port])

    def push(self, stamps: Stamps) -> Vector:
        mark(self._outbox, stamps)
        return self._outbox
