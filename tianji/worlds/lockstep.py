"""Lockstep world: all roles in one process with a fixed order of events. Runs repeat bit for bit and can be debugged.

It uses the same roles and workers as the real world, over the `memory` channel. `order_seed` varies the order in which roles
are served, on which a strict run must not depend.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from tianji.channel.registry import Channels
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.messages import FromRole
from tianji.topology import build
from tianji.worlds.assembly import Assembler, Past, Store
from tianji.worlds.host import Host, Trace

TICK_NS = 1_000_000


class Deadlock(RuntimeError):
    """Error: every role waits and nothing is in flight."""


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
        receives every message of the roles. If it returns a reason, the run ends.
    order_seed
        None always serves roles in the order of the topology. A seed serves them in random order, some less often.
    trace
        receives all events and effects of the roles, in order. Equal runs give equal traces.
    store
        folder of the learners' state, at the start and at the end.
    past
        earlier environment steps of each group's actors.
    """
    # Workers ask for the world: in this one nothing may depend on a clock.
    config = msgspec.structs.replace(config, world="lockstep")
    topology = build(config, "memory://lockstep")
    reasons: list[str] = []

    def tell(message: FromRole) -> None:
        if reason := on_message(message):
            reasons.append(reason)

    # One BLAS thread, as in every process of the real world, gives the same sums in the same order.
    # Values that are not finite are checked once a round, so NumPy need not warn.
    with threadpool_limits(1), np.errstate(all="ignore"), Channels() as channels:
        # The roles' time is a count of calls, so that it repeats in every run.
        pace = itertools.count(0, TICK_NS).__next__
        assembler = Assembler(config, describe, topology, channels, tell, pace=pace, trace=trace, store=store)
        hosts = [assembler.build(spec, Past(steps=past[spec.group] if past else 0)) for spec in topology.roles]
        for host in hosts:
            host.burst_ns = 0  # Events may come between any two slices of work.
        try:
            turns = _turns(hosts, order_seed)
            for host in hosts:
                host.begin()
            while not all(host.ended for host in hosts):
                moved = [host.pump() for host in next(turns) if not host.ended]
                if reasons:
                    for host in hosts:
                        host.stop(reasons[0])
                elif not any(moved) and not any(host.pump() for host in hosts if not host.ended):
                    raise Deadlock(", ".join(f"{h.role.name} waits for {h.role.waiting_for()}" for h in hosts if not h.ended))
        finally:
            for host in hosts:
                host.close()


def _turns(hosts: Sequence[Host], order_seed: int | None) -> Iterator[Sequence[Host]]:
    """Endless orders in which hosts are served."""
    if order_seed is None:
        yield from itertools.repeat(hosts)
    rng = np.random.default_rng(order_seed)
    shares = rng.uniform(0.05, 1.0, len(hosts))
    while True:
        order = rng.permutation(len(hosts))
        yield [hosts[n] for n in order if rng.random() < shares[n]]
