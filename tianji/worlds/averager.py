"""Worker of a Root, which computes means of models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tianji.algorithms.base import Slices
from tianji.algorithms.flat import Vector
from tianji.averaging import Stamps, mark, mean, message_size, stamps_of
from tianji.roles.root import Average, Averaged
from tianji.worlds.workers import ModelWorker


class Averager(ModelWorker):
    """Keeps the latest model of each port, and the latest mean in the message that takes it on."""

    def __init__(self, parameters: int, ports: Sequence[str]) -> None:
        super().__init__()
        self._parameters = parameters
        self._inboxes = {port: np.zeros(message_size(parameters), np.float32) for port in ports}
        self._outbox = np.zeros(message_size(parameters), np.float32)

    def work(self, argument: Average) -> Slices[Averaged]:
        self.weights()[:] = mean([self._inboxes[port][: self._parameters] for port in argument.ports], argument.samples)
        yield
        self.completed = "mean"
        return Averaged()

    def weights(self) -> Vector:
        return self._outbox[: self._parameters]

    def inbox(self, port: str) -> Vector:
        return self._inboxes[port]

    def stamps(self, port: str) -> Stamps:
        return stamps_of(self._inboxes[port], self._parameters)

    def push(self, stamps: Stamps) -> Vector:
        mark(self._outbox, stamps)
        return self._outbox
