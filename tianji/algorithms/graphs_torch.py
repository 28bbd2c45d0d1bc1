"""Optimizer steps as CUDA graphs: recorded once for each shape of a batch, and launched as one piece of work after that.

A step is dozens of short kernels. A processor takes several times as long to launch them one by one as a GPU takes to run them
(docs/notebook/2026-11-speed.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from tianji.algorithms.networks_torch import tensor

B = TypeVar("B")
Shape = tuple[Any, ...]

SEEN_BEFORE = 3
"""Steps on batches of one shape that are not recorded: a shape that does not come back is not worth it."""
MOST = 4
"""Graphs that are kept. Each has memory of its own for the activations of a step."""
WARM_UP = 3
"""Steps before a recording, in which libraries allocate what they keep."""


class StepGraphs(Generic[B]):
    """Steps on batches of type B, a dataclass of arrays or None.

    Parameters
    ----------
    step
        does an optimizer step on a batch. It must only launch work on the device: what it asks of the device's results would
        not be asked again when the recording is launched.
    changes
        returns the tensors that a step changes. They must stay the same tensors.
    device
        a CUDA device.
    """

    def __init__(self, step: Callable[[B], None], changes: Callable[[], Sequence[Tensor]], device: torch.device) -> None:
        self._step, self._changes, self._device = step, changes, device
        self._seen: Counter[Shape] = Counter()
        self._graphs: dict[Shape, tuple[B, torch.cuda.CUDAGraph]] = {}

    def __len__(self) -> int:
        """Number of recordings."""
        return len(self._graphs)

    def step(self, batch: B) -> None:
        """Do a step: as recorded, if there is a recording for the batch's shape."""
        shape = tuple(None if column is None else tuple(column.shape) for column in vars(batch).values())
        if shape not in self._graphs:
            if len(self) == MOST or self._seen[shape] < SEEN_BEFORE:
                self._seen[shape] += len(self) < MOST
                self._step(batch)
                return
            self._graphs[shape] = self._record(batch)
        inputs, graph = self._graphs[shape]
        for name, column in vars(batch).items():
            if column is not None:
                getattr(inputs, name).copy_(tensor(column))
        graph.replay()

    def _record(self, batch: B) -> tuple[B, torch.cuda.CUDAGraph]:
        """Record a step on inputs of its own, and leave everything as it was."""
        columns = [None if column is None else tensor(column, self._device).clone() for column in vars(batch).values()]
        of: Any = type(batch)
        inputs: B = of(*columns)
        before = [changed.detach().clone() for changed in self._changes()]
        # As torch asks for: a recording's first steps are made beside the usual stream.
        beside: torch.cuda.Stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        usual = torch.cuda.current_stream(self._device)
        beside.wait_stream(usual)
        with torch.cuda.stream(beside):
            for _ in range(WARM_UP):
                self._step(inputs)
        usual.wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step(inputs)
        with torch.no_grad():
            for changed, was in zip(self._changes(), before, strict=True):
                changed.copy_(was)
        return inputs, graph
