"""Threads of a learner's torch, and the cores that they are counted on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from programs import cores
from tianji.algorithms.convolutions import pictures
from tianji.config import TrainConfig
from tianji.division import sampling_share, threads_by_need
from tianji.environments.description import Branches, Features
from tianji.trunks import forward_flop


def learner_threads(config: TrainConfig, features: Features, actors: int, learners: int, usable: float | None = None) -> int:
    """Number of threads for a learner's torch, if the user set none.

    With pictures it has its even share of all cores where actors wait for it, and else what learning needs of that share. With
    vectors, a replay or a network of the user's, it has the cores that actors leave free.

    Parameters
    ----------
    features
        `EnvDescription.features`.
    actors, learners
        number of them on this host.
    usable
        cores that this host's processes may use. None: those of this process, under its container's quota.
    """
    if config.learner_threads is not None:
        return config.learner_threads
    available, learners = int(cores.usable() if usable is None else usable), max(1, learners)
    if not isinstance(features, int) and config.device == "cpu":
        own = available / learners
        if config.rule.alternates:
            return max(1, int(own))
        if config.network.kind == "nature-shared":
            vector = features.vector if isinstance(features, Branches) else 0
            flop = forward_flop(pictures(features).values(), config.network.hidden, vector)
            return threads_by_need(sampling_share(flop, config.reuse), own)
    return max(1, (available - actors) // learners)


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
