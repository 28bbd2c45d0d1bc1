"""Worker of the Root, which computes means of models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tianji.algorithms.base import Slices
from tianji.algorithms.flat import Vector
from tianji.averaging import Stamp, mean, message_size, pack, stamps_of
from tianji.roles.root import Average, Averaged
from tianji.worlds.workers import ModelWorker


class Averager(ModelWorker):
    """Keeps the latest model of each group, and the mean."""

    def __init__(self, parameters: int, groups: int) -> None:
        super().__init__()
        self._parameters = parameters
        self._inboxes = [np.zeros(message_size(parameters, groups), np.float32) for _ in range(groups)]
        self._outbox = np.zeros(message_size(parameters, groups), np.float32)
        self._mean = np.zeros(parameters, np.float32)

    def work(self, argument: Average) -> Slices[Averaged]:
        self._mean = mean([self._inboxes[g][: self._parameters] for g in argument.groups], argument.samples)
        yield
        return Averaged()

    def weights(self) -> Vector:
        return self._mean

    def inbox(self, port: str) -> Vector:
        return self._inboxes[int(port)]

    def stamps(self, port: str) -> Sequence[Stamp]:
        return stamps_of(self._inboxes[int(port)], self._parameters)

    def push(self, stamps: Sequence[Stamp]) -> Vector:
        pack(self._outbox, self._mean, stamps)
        return self._outbox
