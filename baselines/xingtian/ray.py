"""Hosts of a Ray cluster. Ray only starts the processes there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec

from baselines.xingtian.assignment import Assignment
from tianji.launch.node import Cluster
from tianji.launch.ray import Placement, RayCrew, connected, reserved, workspaces

PIN = 0.001
"""Amount of a node's address resource that a process requests, which places it on that node."""


class _Hosts:
    """Processes as Ray actors, each node's in one bundle."""

    def __init__(self, crew: RayCrew, members: Sequence[Assignment]) -> None:
        self.crew = crew
        self._where = {member.name: str(member.node) for member in members}
        for name in self._where:
            crew.create(name)

    @contextmanager
    def folders(self) -> Iterator[Sequence[str]]:
        with workspaces(self._where, self.crew.actors) as made:
            yield [made[node] for node in sorted(made, key=int)]

    def start(self, assignment: Assignment) -> None:
        self.crew.play(assignment.name, msgspec.json.encode(assignment))


@contextmanager
def hosts(cluster: Cluster, members: Sequence[Assignment]) -> Iterator[_Hosts]:
    """Places for these processes, on the nodes that they belong to; raises as `tianji.launch.ray.launch` does."""
    assert cluster.ray_address is not None
    placement = place(cluster, members)
    with ExitStack() as stack:
        stack.enter_context(connected(cluster.ray_address))
        group, _ = stack.enter_context(reserved(placement))
        yield _Hosts(RayCrew(group, placement, "baselines.xingtian.process:play"), members)


def place(cluster: Cluster, members: Sequence[Assignment]) -> Placement:
    """Placement with a bundle for each node, and a CPU for each of its processes but the broker, which computes nothing."""
    cpus = {member.name: 1 for member in members if member.kind != "broker"}
    bundles = [
        {"CPU": float(sum(cpus.get(m.name, 0) for m in members if m.node == n)), f"node:{node.address}": PIN}
        for n, node in enumerate(cluster.nodes)
    ]
    return Placement(bundles, {member.name: member.node for member in members}, cpus, strategy="STRICT_SPREAD")
