"""A worker whose revision was made worse on purpose: `python -m benchmarks.gate.planted KIND PARENT`.

- `sampling`, `learner`, `channel`: an actor's fragments, a learner's updates, or the ends of edges take 15 % longer. The time
  is spent computing, not sleeping, as a slower program would.
- `learning`: nothing takes longer, but advantages are bootstrapped from terminated steps.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from suites.components import worker
from tianji.algorithms import dqn_numpy, ppo, ppo_numpy
from tianji.channel import shared, stream, weights
from tianji.worlds.sampler import Sampler

LONGER = 0.15
"""By which share something takes longer."""
OVERHEAD_NS = 900
"""What the wrapper itself costs a call, about."""
PAID_NS = 2_000
_within = threading.local()


def slow_down(owner: type, name: str) -> None:
    """Have a method take longer; one that calls another of these only once.

    The extra time is collected until it is long enough to be measured by the clock. The cost of this wrapper counts towards it.
    """
    plain, clock = getattr(owner, name), time.perf_counter_ns

    @functools.wraps(plain)
    def slower(*arguments: Any, **named: Any) -> Any:
        if getattr(_within, "slow", False):
            return plain(*arguments, **named)
        _within.slow, begun = True, clock()
        try:
            return plain(*arguments, **named)
        finally:
            now = clock()
            owed = getattr(_within, "owed_ns", 0.0) + (now - begun) * LONGER - OVERHEAD_NS
            if owed > PAID_NS:
                while clock() - now < owed:
                    pass
                owed -= clock() - now
            _within.owed_ns, _within.slow = owed, False

    setattr(owner, name, slower)


def sampling() -> None:
    """An actor's fragments."""
    slow_down(Sampler, "run")


def learner() -> None:
    """Optimizer steps."""
    for updater in (ppo_numpy.NumpyUpdater, dqn_numpy.NumpyUpdater):
        slow_down(updater, "step")


def channel() -> None:
    """What roles ask of the ends of edges (but for addresses of slots and bodies: too short to be timed)."""
    for outlet in (shared.SharedOutlet, stream.StreamOutlet):
        for name in ("send", "flush", "credits"):
            slow_down(outlet, name)
    for inlet in (shared.SharedInlet, stream.StreamInlet):
        for name in ("receive", "release", "flush"):
            slow_down(inlet, name)
    for publisher in (weights.BoardOutlet, weights.StreamWeightsOutlet):
        slow_down(publisher, "publish")
    for reader in (weights.BoardInlet, weights.StreamWeightsInlet):
        slow_down(reader, "latest")


def learning() -> None:
    """Advantages that know no end."""
    plain = ppo.generalised_advantages

    def endless(reward: Any, value: Any, next_value: Any, terminated: Any, *more: Any) -> Any:
        return plain(reward, value, next_value, np.zeros_like(terminated), *more)

    ppo.generalised_advantages = endless


KINDS: dict[str, Callable[[], None]] = {"sampling": sampling, "learner": learner, "channel": channel, "learning": learning}


if __name__ == "__main__":
    KINDS[sys.argv[1]]()
    sys.exit(worker.main(int(sys.argv[2])))
