"""The `local` testbed: nodes are loopback addresses of this host, without budgets or limits on links.

They need no privileges and emulate nothing but several addresses. The launcher has 127.0.0.1 and nodes start at 127.0.0.2,
because Ray takes the first address for the host's own and would mix it up with the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack

from suites.records.events import NodeCheck, NodeUsage
from suites.testbed import probe
from suites.testbed.base import Shape, Testbed
from suites.testbed.busy import loops_per_s
from suites.testbed.ray_daemons import ray_on
from tianji.launch.node import LOOPBACK, Cluster, Node


class Unlimited(Testbed):
    """Testbed without budgets and without accounts of resources."""

    def checks(self, lines: Sequence[probe.Line | None]) -> list[NodeCheck]:
        """Results for each node's link; None: it was not measured."""
        return [
            NodeCheck(
                time.monotonic_ns(),
                node=number,
                address=node.address,
                link_measured_bits_per_s=line.bits_per_s if line else None,
                round_trip_s=line.round_trip_s if line else None,
            )
            for number, (node, line) in enumerate(zip(self.cluster.nodes, lines, strict=True), 1)
        ]

    def limit(self) -> None:
        """There are no budgets."""

    def usage(self) -> list[NodeUsage]:
        return [NodeUsage(time.monotonic_ns(), node=number) for number in range(1, self.shape.nodes + 1)]

    def not_given(self) -> list[str]:
        """Properties of its shape that only emulated nodes have."""
        shape, said = self.shape, []
        if shape.cores is not None:
            said.append(f"no node is limited to {shape.cores:g} cores")
        if shape.link_bits_per_s is not None:
            said.append(f"no link is limited to {shape.link_bits_per_s / 1e6:g} Mbit/s")
        if shape.delay_s is not None:
            said.append(f"no link has a delay of {shape.delay_s * 1e3:g} ms")
        if shape.company:
            said.append("no other nodes are kept busy")
        return said


class Local(Unlimited):
    """Nodes that are addresses of this host."""

    name = "local"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        # Nobody holds them to it: it says how many processes make sense.
        share = max(1.0, len(os.sched_getaffinity(0)) / shape.nodes)
        self._nodes = tuple(Node(f"127.0.0.{number}", cores=share) for number in range(2, shape.nodes + 2))
        self._stack = ExitStack()
        self._ray_address: str | None = None

    @property
    def cluster(self) -> Cluster:
        return Cluster(self._nodes, LOOPBACK, self._ray_address)

    @property
    def home(self) -> Node:
        return Node(LOOPBACK)

    def set_up(self) -> None:
        """There is nothing to make."""

    def take_down(self) -> None:
        self._stack.close()
        self._ray_address = None

    def start_ray(self) -> None:
        self._ray_address = self._stack.enter_context(ray_on(self._nodes))

    def check(self) -> list[NodeCheck]:
        neighbours = probe.neighbours(self._nodes, self.home)
        return self.checks([probe.line(node, peer, probe.FREE_LINK_S) for node, peer in neighbours])

    def speeds(self) -> list[float]:
        return loops_per_s(self._nodes)

    def deviations(self) -> list[str]:
        return [f"{self.shape.nodes} nodes are addresses of one host, and share all it has", *self.not_given()]
