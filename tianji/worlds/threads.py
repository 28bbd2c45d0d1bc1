"""Threads of a learner's torch, and the cores that they are counted on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from programs import cores
from tianji.config import TrainConfig


def learner_threads(config: TrainConfig, actors: int, learners: int, usable: float | None = None) -> int:
    """Number of threads for a learner's torch: what the user set, or the cores that actors leave free, shared evenly.

    Parameters
    ----------
    actors, learners
        number of them on this host.
    usable
        cores that this host's processes may use. None: those of this process, under its container's quota.
    """
    available = int(cores.usable() if usable is None else usable)
    return config.learner_threads or max(1, (available - actors) // max(1, learners))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Context in which torch computes with so many threads, if it is loaded.

    `threadpoolctl` limits the libraries that are loaded, and torch is loaded only by runs that need it.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
