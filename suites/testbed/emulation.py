"""The `netns` testbed: nodes emulated on this machine, each with its own network, link and budget of cores.

The network is a star of network namespaces (`netns`). Budgets are control groups (`control_groups`). The network has no names,
so the kernel removes it when this process ends. Control groups are named after the process, and the next start removes those
that were left behind.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from typing import NamedTuple

import msgspec

from programs.cli import ConfigError
from programs.process import status_of
from suites.records.events import NodeCheck, NodeUsage
from suites.testbed import netns, probe
from suites.testbed.awake import awake
from suites.testbed.base import Shape, Testbed
from suites.testbed.busy import loops_per_s
from suites.testbed.control_groups import MOST, ControlGroups, Group, Hierarchy
from suites.testbed.counters import LinkCounters, NodeTraffic
from suites.testbed.ray_daemons import ray_on, workers
from tianji.launch.node import Cluster, Node


class Place(NamedTuple):
    """A node, and what is behind it."""

    node: Node
    """The node, whose processes have the budget."""
    budget: Group
    daemons: Group
    """Group of Ray's daemons, outside the budget."""
    link: LinkCounters
    interface: int
    """Index of its link."""
    traffic: NodeTraffic


class Emulated(Testbed):
    """Nodes emulated on this machine.

    Raises
    ------
    ConfigError
        at set-up, where this process may not emulate nodes, or the machine has too few cores.
    """

    name = "netns"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._stack = ExitStack()
        self._places: list[Place] = []
        self._company: list[Place] = []
        self._held: list[Place] = []
        self._ray_address: str | None = None
        self._awake = False

    @property
    def cluster(self) -> Cluster:
        return Cluster(tuple(place.node for place in self._places), self._star.home.address, self._ray_address)

    @property
    def home(self) -> Node:
        return self._star.home

    def set_up(self) -> None:
        shape, own = self.shape, len(os.sched_getaffinity(0))
        if shape.company and shape.cores is None:
            raise ConfigError("testbed netns: company is for nodes with a budget of cores")
        if shape.cores is not None and (wanted := shape.cores * (shape.nodes + shape.company)) > own:
            raise ConfigError(f"testbed netns: {wanted:g} cores in all are asked for, and this machine has {own}")
        stack = self._stack
        try:
            netns.become_able()
            groups = self._budgets = stack.enter_context(ControlGroups())
            # Apart, so that they have no precedence where nodes have it.
            outside = stack.enter_context(ControlGroups())
        except PermissionError as error:
            raise ConfigError(f"testbed netns: {error.strerror or error}; it needs root") from error
        groups.weigh(shape.nodes + shape.company)
        outside.weigh(shape.nodes)
        self._star = netns.Star(shape.nodes + shape.company, netns.Link(shape.link_bits_per_s, shape.delay_s))
        stack.callback(self._star.close)
        for number, bare in enumerate(self._star.nodes, 1):
            budget, daemons = groups.create(f"node{number}"), outside.create(f"node{number}")
            node = msgspec.structs.replace(bare, control_groups=budget.folders, cores=shape.cores)
            with netns.inside(node):
                link, traffic = LinkCounters(), NodeTraffic(self._star.home.address)
                interface = socket.if_nametoindex(netns.LINK)
            stack.callback(link.close)
            stack.callback(traffic.close)
            places = self._places if number <= shape.nodes else self._company
            places.append(Place(node, budget, daemons, link, interface, traffic))
        with netns.inside(self._star.switch):
            self._switch = LinkCounters()
        stack.callback(self._switch.close)
        if shape.cores is not None:
            # Else the only busy one of eight nodes is slower than it is among seven busy ones.
            self._awake = stack.enter_context(awake())

    def take_down(self) -> None:
        self._stack.close()
        self._places, self._company, self._ray_address = [], [], None

    def start_ray(self) -> None:
        outside = [msgspec.structs.replace(place.node, control_groups=place.daemons.folders) for place in self._places]
        self._ray_address = self._stack.enter_context(ray_on(outside))

    def check(self) -> list[NodeCheck]:
        shape = self.shape
        shares: list[float] | list[None] = [None] * shape.nodes
        if shape.cores is not None:
            everywhere = [(place.node, place.budget) for place in (*self._places, *self._company)]
            self._budgets.weigh(MOST)
            shares = probe.checked_budgets(everywhere, shape.cores)[: shape.nodes]
            self._budgets.weigh(shape.nodes + shape.company)
        found = []
        neighbours = probe.neighbours([place.node for place in self._places], self.home)
        for number, ((node, peer), share) in enumerate(zip(neighbours, shares, strict=True), 1):
            delayed = shape.delay_s is not None and self._star.delays
            # The launcher's home sends without a delay.
            delay_s = shape.delay_s * (2 if peer is not self.home else 1) if delayed and shape.delay_s is not None else None
            line = probe.checked_line(node, peer, shape.link_bits_per_s, delay_s)
            for place in self._places:
                place.traffic.ignore(line.cookies)
            found.append(
                NodeCheck(
                    time.monotonic_ns(),
                    node=number,
                    address=node.address,
                    cores=shape.cores,
                    cores_measured=share,
                    link_bits_per_s=shape.link_bits_per_s,
                    link_measured_bits_per_s=line.bits_per_s,
                    round_trip_s=line.round_trip_s,
                )
            )
        return found

    def speeds(self) -> list[float]:
        everywhere = (*self._places, *self._company)
        with ExitStack() as stack:
            if self.shape.cores is not None:
                for place in everywhere:
                    stack.callback(place.budget.limit, None)
                    place.budget.limit(self.shape.cores)
                stack.callback(self._budgets.weigh, len(everywhere))
                self._budgets.weigh(MOST)
            return loops_per_s([place.node for place in everywhere])[: self.shape.nodes]

    def limit(self) -> None:
        self._sort_workers()
        for place in (*self._places, *self._company):
            place.budget.limit(self.shape.cores)
        if self.shape.cores is not None:
            self._budgets.weigh(MOST)
        while self._held:
            _signal(self._held.pop(), signal.SIGCONT)

    @property
    def company(self) -> tuple[Node, ...]:
        return tuple(place.node for place in self._company)

    def hold(self, node: Node) -> None:
        (place,) = (place for place in (*self._places, *self._company) if place.node == node)
        _signal(place, signal.SIGSTOP)
        self._held.append(place)

    def _sort_workers(self) -> None:
        """Ray's workers are started by its daemons, and do the node's work."""
        for place in self._places if self._ray_address else ():
            place.budget.add(workers(place.daemons.processes()))

    def usage(self) -> list[NodeUsage]:
        self._sort_workers()
        to_nodes = self._switch.read()
        found = []
        for number, (place, port) in enumerate(zip(self._places, self._star.ports[: self.shape.nodes], strict=True), 1):
            used = place.budget.used()
            sent, control = place.traffic.read()
            found.append(
                NodeUsage(
                    time.monotonic_ns(),
                    node=number,
                    cpu_s=used.cpu_s,
                    throttled_s=used.throttled_s,
                    daemons_cpu_s=place.daemons.used().cpu_s,
                    wire_sent_bytes=place.link.read()[place.interface],
                    wire_received_bytes=to_nodes[port],
                    socket_bytes=sent,
                    control_bytes=control,
                )
            )
        return found

    def deviations(self) -> list[str]:
        shape = self.shape
        said = [f"{shape.nodes} nodes are emulated on one machine: they share its memory, its caches and its kernel"]
        if shape.cores is not None:
            quota = f"control groups of version {Hierarchy.find().version}, periods of 10 ms"
            said.append(
                f"a node's {shape.cores:g} cores are a quota of CPU time ({quota}); part of what packets cost is not in it"
            )
            said.append(f"the machine's idle cores {'poll, and do not sleep' if self._awake else 'may sleep'}")
        if shape.company:
            said.append(f"{shape.company} more nodes with such budgets are busy with runs of their own, which take no part")
        if shape.link_bits_per_s is not None:
            said.append(f"links carry {shape.link_bits_per_s / 1e6:g} Mbit/s by token buckets at both ends")
        if shape.delay_s is not None:
            how = (
                "is netem's, from a node to the switch alone" if self._star.delays else "is not there: this kernel has no netem"
            )
            said.append(f"the delay of {shape.delay_s * 1e3:g} ms {how}")
        return said


def _signal(place: Place, number: signal.Signals) -> None:
    """Send a signal to every process that does a node's work."""
    for pid in place.budget.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def unavailable() -> str | None:
    """Reason why no nodes can be emulated here; None if they can. A separate process tries it."""
    tried = subprocess.run(
        [sys.executable, "-m", "suites.testbed.emulation"], capture_output=True, text=True, timeout=60, check=False
    )
    lines = tried.stderr.strip().splitlines()
    return None if tried.returncode == 0 else (lines[-1] if lines else "the trial failed")


def trial() -> None:
    """One node with everything."""
    with Emulated(Shape(nodes=1, cores=0.5, link_bits_per_s=10**9)) as testbed:
        testbed.limit()
        testbed.usage()


if __name__ == "__main__":
    sys.exit(status_of(trial, ConfigError))
