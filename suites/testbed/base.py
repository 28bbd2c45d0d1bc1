"""The contract of a testbed: nodes with an address, a budget of cores and a link, on which a system's processes are started.

A testbed is set up, checked by measurement, lent to one run and taken down, by one process. Budgets hold from `limit` on, so
that starting up, which is no part of what is compared, does not take half a minute under a fifth of a core.
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
    """What nodes are asked for. Where a testbed cannot give a property its `deviations` say so."""

    nodes: Annotated[int, Meta(ge=1, le=64)]
    cores: Annotated[float, Meta(gt=0)] | None = None
    """Of each node; None: as many as there are."""
    link_bits_per_s: Annotated[int, Meta(ge=1_000_000)] | None = None
    """Of each node's link, either direction, Ethernet frames and all; None: as fast as it is."""
    delay_s: Annotated[float, Meta(gt=0)] | None = None
    """That a packet takes from a node to the switch, beside that; None: none is added."""
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
        """Where whoever starts processes on the nodes is: outside of all of them."""

    @property
    def company(self) -> tuple[Node, ...]:
        """Nodes beside those of the cluster, with a budget like theirs, which whoever uses the testbed keeps busy with what
        nodes are busy with.

        Emulated nodes share caches and memory. If those that a smaller run leaves unused stood idle, its nodes would each be
        faster than the same nodes of a larger run, and adding nodes would seem to gain less than it does.
        """
        return ()

    def hold(self, node: Node) -> None:  # noqa: B027 (where nothing is limited, nobody is held either)
        """Have the processes on a node (of the cluster's or of the company) stand still until `limit`: they have no budget yet,
        and would slow down whoever starts meanwhile."""

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

    @abstractmethod
    def limit(self) -> None:
        """The measured phase begins: budgets of cores hold from now on."""

    @abstractmethod
    def usage(self) -> list[NodeUsage]:
        """What each node has used by now."""

    @abstractmethod
    def deviations(self) -> list[str]:
        """What of the shape is not so, and what is emulated how, in words."""

    @abstractmethod
    def set_up(self) -> None:
        """Make the nodes."""

    @abstractmethod
    def take_down(self) -> None:
        """Leave nothing of them, whatever state they are in."""

    def __enter__(self) -> Testbed:
        try:
            self.set_up()
        except BaseException:
            self.take_down()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.take_down()
