"""Contract of a testbed: nodes with an address, a budget of cores and a link, on which a system's processes are started.

One process sets a testbed up, checks it by measurement, uses it for one run and takes it down. Budgets apply from `limit` on.
Start-up is not compared, and would take half a minute with a fifth of a core.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Annotated, Literal

from msgspec import Meta, Struct

from suites.records.events import NodeCheck, NodeUsage
from tianji.launch.node import Cluster, Node

Name = Literal["local", "netns", "ray"]


class Shape(Struct, frozen=True, kw_only=True):
    """Requested properties of nodes. A testbed lists those that it cannot give in its `deviations`."""

    nodes: Annotated[int, Meta(ge=1, le=64)]
    cores: Annotated[float, Meta(gt=0)] | None = None
    """Cores of each node; None: all of the machine."""
    link_bits_per_s: Annotated[int, Meta(ge=1_000_000)] | None = None
    """Rate of each node's link in either direction, with Ethernet frames; None: unlimited."""
    delay_s: Annotated[float, Meta(gt=0)] | None = None
    """Added delay of a packet from a node to the switch, in seconds; None: no delay."""
    company: Annotated[int, Meta(ge=0, le=64)] = 0
    """Nodes beside these that take no part; see `Testbed.company`."""


class Testbed(ABC):
    """Nodes for one run; a context manager: they are there inside of it, and nothing of them is afterwards."""

    name: Name

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    @property
    @abstractmethod
    def cluster(self) -> Cluster:
        """The nodes, as a system is told of them."""

    @property
    @abstractmethod
    def home(self) -> Node:
        """Node of the launcher, outside of all other nodes."""

    @property
    def company(self) -> tuple[Node, ...]:
        """Extra nodes with the same budget, on which the caller runs a similar load.

        Emulated nodes share caches and memory. If the unused nodes of a smaller run idled, its nodes would be faster than those
        of a larger run, and adding nodes would seem to gain less than it does.
        """
        return ()

    def hold(self, node: Node) -> None:  # noqa: B027 (where nothing is limited, nobody is held either)
        """Freeze the processes on a node until `limit`. They have no budget yet and would slow down processes that start."""

    @abstractmethod
    def start_ray(self) -> None:
        """Make the nodes a Ray cluster; `cluster.ray_address` says where. Its daemons stand outside the nodes' budgets.

        Raises
        ------
        RuntimeError
            when a daemon does not come up.
        """

    @abstractmethod
    def check(self) -> list[NodeCheck]:
        """Measure what each node got, before the run; see `suites.records.events.NodeCheck`."""

    def speeds(self) -> list[float]:
        """Loops a second of each node, by the same bare loop on all nodes at once, company included, within their budgets.

        Call it while nothing else runs on them. Empty where no process can be started on a node like that.
        """
        return []

    @abstractmethod
    def limit(self) -> None:
        """The measured phase begins: budgets of cores hold from now on."""

    @abstractmethod
    def usage(self) -> list[NodeUsage]:
        """Resources that each node has used so far."""

    @abstractmethod
    def deviations(self) -> list[str]:
        """Differences from the requested shape, and the means of emulation, in words."""

    @abstractmethod
    def set_up(self) -> None:
        """Make the nodes."""

    @abstractmethod
    def take_down(self) -> None:
        """Remove the nodes completely, in any state."""

    def __enter__(self) -> Testbed:
        try:
            self.set_up()
        except BaseException:
            self.take_down()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.take_down()
