"""Lockstep world: all roles in one process with a fixed order of events. Runs repeat bit for bit and can be debugged.

It uses the same roles and workers as the real world, over the `memory` channel. `order_seed` varies the order in which roles
are served, on which a strict run must not depend.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from tianji.channel.registry import Channels
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.messages import FromRole
from tianji.roles.learner import Learner
from tianji.topology import build
from tianji.worlds import episodes
from tianji.worlds.assembly import Assembler, Past, Store
from tianji.worlds.host import Host, Trace
from tianji.worlds.threads import torch_threads

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
    past: Sequence[Sequence[Past]] | None = None,
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
        history of each group's actors.
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
    with threadpool_limits(1), np.errstate(all="ignore"), Channels() as channels, ExitStack() as stack:
        # The roles' time is a count of calls, so that it repeats in every run.
        pace = itertools.count(0, TICK_NS).__next__
        assembler = Assembler(config, describe, topology, channels, tell, pace=pace, trace=trace, store=store)
        hosts = [
            assembler.build(spec, past[spec.group][spec.index] if past and spec.kind == "actor" else Past())
            for spec in topology.roles
        ]
        for host in hosts:
            host.burst_ns = 0  # Events may come between any two slices of work.
            host.worker.remembers = store is not None and store.saves
        try:
            # Building them has imported torch if the run needs it.
            stack.enter_context(torch_threads(1))
            turns = _turns(hosts, order_seed)
            for host in hosts:
                host.begin()
            while not all(host.ended for host in hosts):
                moved = [_pump(host, config.learner_threads) for host in next(turns) if not host.ended]
                if reasons:
                    for host in hosts:
                        host.stop(reasons[0])
                elif not any(moved) and not any(_pump(h, config.learner_threads) for h in hosts if not h.ended):
                    raise Deadlock(", ".join(f"{h.role.name} waits for {h.role.waiting_for()}" for h in hosts if not h.ended))
            if store is not None and store.saves:
                episodes.store(config, Path(store.folder), dict(zip(topology.roles, hosts, strict=True)))
        finally:
            for host in hosts:
                host.close()


def _pump(host: Host, threads: int | None) -> bool:
    """Serve a role. A learner's torch has the threads that the user gave it, by default one."""
    if threads is None or not isinstance(host.role, Learner):
        return host.pump()
    with torch_threads(threads):
        return host.pump()


def _turns(hosts: Sequence[Host], order_seed: int | None) -> Iterator[Sequence[Host]]:
    """Endless orders in which hosts are served."""
    if order_seed is None:
        yield from itertools.repeat(hosts)
    rng = np.random.default_rng(order_seed)
    shares = rng.uniform(0.05, 1.0, len(hosts))
    while True:
        order = rng.permutation(len(hosts))
        yield [hosts[n] for n in order if rng.random() < shares[n]]
