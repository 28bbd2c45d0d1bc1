"""Starts the processes of a run on its nodes, and supervises them with TianJi's supervisor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

import msgspec
from msgspec.structs import replace

from baselines.xingtian.assignment import Assignment
from tianji.algorithms import networks
from tianji.channel.security import Keys
from tianji.config import TrainConfig
from tianji.environments.making import describe
from tianji.launch.children import Children
from tianji.launch.control import control_socket, private_folder, tcp_control_socket
from tianji.launch.crew import Crew
from tianji.launch.events import Heard
from tianji.launch.node import LOOPBACK, Cluster, Node
from tianji.launch.supervisor import Supervisor
from tianji.messages import Done


class Site(Protocol):
    """Place where processes are started."""

    @property
    def crew(self) -> Crew:
        """The processes."""

    def folders(self) -> AbstractContextManager[Sequence[str]]:
        """A private one for sockets, of each node."""

    def start(self, assignment: Assignment) -> None:
        """Start a process on its node."""


def run(
    config: TrainConfig, listener: Callable[[Heard], str | None], cluster: Cluster | None = None, *, compress: bool = True
) -> None:
    """Run to the end: `stop_steps`, `stop_seconds` or the listener's word. No process and no memory outlives the call.

    Parameters
    ----------
    config
        `actors` explore, equally many on each node.
    listener
        is told everything that the processes report. The run ends when it answers with a string that says why.
    cluster
        nodes to spread over. Ray starts the processes where they are hosts of a Ray cluster, this process elsewhere.
    compress
        large bodies on their way between nodes.

    Raises
    ------
    tianji.launch.events.RoleFailed
        when a process fails; the others have been ended by then.
    tianji.settings.ConfigError
        when a Ray cluster is not there, or cannot hold the run.
    """

    def on_message(message: Heard) -> str | None:
        asked = listener(message)
        return message.reason if isinstance(message, Done) else asked

    description = describe(config.env, config.atari, config.simulator).seen_by(config.network.kind)
    network = networks.of(config, description)
    nodes: Sequence[Node | None] = [None] if cluster is None else cluster.nodes
    with ExitStack() as stack:
        keys = None
        if cluster is None:
            control, base_uri = stack.enter_context(control_socket(network.size))
            control_uri = f"{base_uri}/control"
        else:
            keys = Keys.generate() if config.encrypt and len(nodes) > 1 else None
            control, control_uri = stack.enter_context(tcp_control_socket(cluster.home, keys, network.size))
        plan = Assignment(
            kind="learner",
            index=0,
            config=config,
            describe=description,
            parameters=network.acting,
            nodes=len(nodes),
            host=LOOPBACK,
            base_uri="",
            control_uri=control_uri,
            keys=None if keys is None else (keys.public.decode(), keys.secret.decode()),
            compress=compress,
        )
        members = [
            *(replace(plan, kind="broker", index=n) for n in range(len(nodes))),
            plan,
            *(replace(plan, kind="explorer", index=i) for i in range(config.actors)),
        ]
        site: Site
        if cluster is not None and by_ray(cluster):
            from baselines.xingtian import ray  # An import of seconds, and Ray need not be installed.

            site = stack.enter_context(ray.hosts(cluster, members))
        else:
            site = _ThisMachine(nodes)
        supervisor = Supervisor(control, site.crew, frozenset(member.name for member in members), on_message)
        stack.callback(supervisor.end)
        # Gone before the processes are, some of which may have to remove them.
        folders = stack.enter_context(site.folders())
        for member in members:
            node = nodes[member.node]
            host = LOOPBACK if node is None else node.address
            site.start(replace(member, host=host, base_uri=f"ipc://{folders[member.node]}"))
        supervisor.supervise(config.stop_seconds)


def by_ray(cluster: Cluster) -> bool:
    """Whether Ray has to start the processes: its nodes then are hosts, not networks of this one."""
    return cluster.ray_address is not None and all(node.namespace is None for node in cluster.nodes)


class _ThisMachine:
    """Nodes that are this host, or emulated on it: processes are children."""

    def __init__(self, nodes: Sequence[Node | None]) -> None:
        self.crew = Children()
        self._nodes = nodes

    @contextmanager
    def folders(self) -> Iterator[Sequence[str]]:
        with ExitStack() as stack:
            yield [stack.enter_context(private_folder()) for _ in self._nodes]

    def start(self, assignment: Assignment) -> None:
        command = ["baselines.xingtian.process", f"xt-{assignment.name}"]
        told = msgspec.json.encode(replace(assignment, parent=os.getpid()))
        self.crew.spawn(assignment.name, command, told, node=self._nodes[assignment.node])
