"""Worker of the Root, which computes means of models."""

from __future__ import annotations

import numpy as np

from tianji.algorithms.base import Slices
from tianji.algorithms.flat import Vector
from tianji.averaging import Stamps, mark, mean, message_size, stamps_of
from tianji.roles.root import Average, Averaged
from tianji.worlds.workers import ModelWorker


class Averager(ModelWorker):
    """Keeps the latest model of each group, and the mean in the message that takes it to them."""

    def __init__(self, parameters: int, groups: int) -> None:
        super().__init__()
        self._parameters = parameters
        self._inboxes = [np.zeros(message_size(parameters), np.float32) for _ in range(groups)]
        self._outbox = np.zeros(message_size(parameters), np.float32)

    def work(self, argument: Average) -> Slices[Averaged]:
        self.weights()[:] = mean([self._inboxes[g][: self._parameters] for g in argument.groups], argument.samples)
        yield
        self.completed = "mean"
        return Averaged()

    def weights(self) -> Vector:
        return self._outbox[: self._parameters]

    def inbox(self, port: str) -> Vector:
        return self._inboxes[int(port)]

    def stamps(self, port: str) -> Stamps:
        return stamps_of(self._inboxes[int(port)], self._parameters)

    def push(self, stamps: Stamps) -> Vector:
        mark(self._outbox, stamps)
        return self._outbox
