"""The `local` testbed: nodes that are addresses of this host's loopback, without budgets and without limits on links.

They need no rights, and emulate nothing: what runs on several nodes is told of several addresses. The launcher's is the first
one, 127.0.0.1, and nodes begin at 127.0.0.2: Ray takes the first one for the host's own address in its network, and does not
keep it apart from the others.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack

from suites.records.events import NodeCheck, NodeUsage
from suites.testbed import probe
from suites.testbed.base import Shape, Testbed
from suites.testbed.ray_daemons import RayDaemons
from tianji.launch.node import LOOPBACK, Cluster, Node


class Local(Testbed):
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
        self._ray_address = self._stack.enter_context(RayDaemons(self._nodes)).address

    def check(self) -> list[NodeCheck]:
        found = []
        for number, (node, peer) in enumerate(probe.neighbours(self._nodes, self.home), 1):
            line = probe.line(node, peer, probe.FREE_LINK_S)
            found.append(unlimited(number, node, line))
        return found

    def limit(self) -> None:
        """There are no budgets."""

    def usage(self) -> list[NodeUsage]:
        return unknown_usage(self.shape.nodes)

    def deviations(self) -> list[str]:
        return [f"{self.shape.nodes} nodes are addresses of one host, and share all it has", *not_given(self.shape)]


def unlimited(number: int, node: Node, line: probe.Line | None) -> NodeCheck:
    """What was found of a node that is held to nothing; None: its link was not measured."""
    return NodeCheck(
        time.monotonic_ns(),
        node=number,
        address=node.address,
        cores=None,
        cores_measured=None,
        link_bits_per_s=None,
        link_measured_bits_per_s=line.bits_per_s if line else None,
        round_trip_s=line.round_trip_s if line else None,
    )


def unknown_usage(nodes: int) -> list[NodeUsage]:
    """Of nodes that nobody keeps accounts of."""
    return [
        NodeUsage(
            time.monotonic_ns(),
            node=number,
            cpu_s=None,
            throttled_s=None,
            daemons_cpu_s=None,
            wire_sent_bytes=None,
            wire_received_bytes=None,
            socket_bytes=None,
            control_bytes=None,
        )
        for number in range(1, nodes + 1)
    ]


def not_given(shape: Shape) -> list[str]:
    """What of a shape only emulated nodes have."""
    said = []
    if shape.cores is not None:
        said.append(f"no node is limited to {shape.cores:g} cores")
    if shape.link_bits_per_s is not None:
        said.append(f"no link is limited to {shape.link_bits_per_s / 1e6:g} Mbit/s")
    if shape.delay_s is not None:
        said.append(f"no link has a delay of {shape.delay_s * 1e3:g} ms")
    if shape.company:
        said.append("no other nodes are kept busy")
    return said
