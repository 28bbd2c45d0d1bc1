"""All roles in one process, in a fixed order of events: bit-for-bit repeatable, and a breakpoint stops everything.

The same roles and workers as in the real world, over the `memory` channel. `order_seed` varies who is served first,
which a strict run must not depend on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from tianji.channel.registry import Network
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.messages import FromRole
from tianji.topology import build
from tianji.worlds.assembly import Assembler, Past, Store
from tianji.worlds.host import Trace

TICK_NS = 1_000_000


class Deadlock(RuntimeError):
    """Every role waits and nothing is on its way."""


def run(
    config: TrainConfig,
    describe: EnvDescription,
    on_message: Callable[[FromRole], str | None],
    order_seed: int | None = None,
    trace: Trace | None = None,
    store: Store | None = None,
    past: Sequence[int] | None = None,
) -> None:
    """Run to the end.

    Parameters
    ----------
    on_message
        is told everything that roles report; the reason it returns, if any, ends the run.
    order_seed
        None serves roles in the order of the topology, always.
    trace
        is told all that roles hear and do, in order: two runs alike tell the same.
    store
        where learners keep their state when they end, and what they begin with.
    past
        environment steps that each group's actors have made before.
    """
    topology = build(config, "memory://lockstep")
    reasons: list[str] = []

    def tell(message: FromRole) -> None:
        if reason := on_message(message):
            reasons.append(reason)

    # One BLAS thread, as every process of the real world has: the same sums in the same order.
    with threadpool_limits(1), Network() as network:
        # Time as the roles see it is a count of how often it was asked for: it repeats as everything else does.
        pace = itertools.count(0, TICK_NS).__next__
        assembler = Assembler(config, describe, topology, network, tell, pace=pace, trace=trace, store=store)
        hosts = [assembler.build(spec, Past(steps=past[spec.group] if past else 0)) for spec in topology.roles]
        try:
            order = list(hosts)
            rng = None if order_seed is None else np.random.default_rng(order_seed)
            for host in hosts:
                host.begin()
            while not all(host.ended for host in hosts):
                if rng is not None:
                    rng.shuffle(order)
                moved = [host.pump() for host in order if not host.ended]
                if reasons:
                    for host in order:
                        host.stop(reasons[0])
                elif not any(moved):
                    raise Deadlock(", ".join(f"{h.role.name} waits for {h.role.waiting_for()}" for h in hosts if not h.ended))
        finally:
            for host in hosts:
                host.close()
