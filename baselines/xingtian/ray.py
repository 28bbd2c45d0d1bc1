"""Hosts of a Ray cluster: Ray starts the processes there, and carries nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec

from baselines.xingtian.assignment import Assignment
from tianji.launch.node import Cluster
from tianji.launch.ray import Placement, RayCrew, connected, reserved, workspaces

PIN = 0.001
"""Of the resource that a node has by its address: whatever asks for some of it is placed there."""


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
    """A bundle for each node, with a CPU for everybody there but its broker, who computes nothing."""
    cpus = {member.name: 1 for member in members if member.kind != "broker"}
    bundles = [
        {"CPU": float(sum(cpus.get(m.name, 0) for m in members if m.node == n)), f"node:{node.address}": PIN}
        for n, node in enumerate(cluster.nodes)
    ]
    return Placement(bundles, {member.name: member.node for member in members}, cpus, strategy="STRICT_SPREAD")
