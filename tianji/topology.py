"""From a configuration to roles and the edges that join them.

A group: its actors push chunks to its buffer, the buffer pushes batches to its learner, the learner pushes weights to its
actors. Without a buffer the actors push to the learner themselves. Where there is a Root, each learner pushes its model to
it, and the Root pushes the mean back.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from tianji.algorithms import networks
from tianji.averaging import message_size
from tianji.channel.base import EdgeSpec
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.layout import ChunkLayout, rollout_layout

Kind = Literal["root", "learner", "buffer", "actor"]
N = TypeVar("N", bound=Hashable)


class RoleSpec(Struct, frozen=True):
    """One role: what it is, where it stands in its group, and its name as `ps` shows it."""

    kind: Kind
    index: int
    """Of an actor within its group; 0 of the others."""
    group: int
    name: str


class Topology(Struct, frozen=True):
    """Roles in the order in which they can be joined, and the addresses of the edges by their names."""

    roles: tuple[RoleSpec, ...]
    addresses: dict[str, str]

    @property
    def open_ports(self) -> bool:
        """Whether an address is known only when it has been bound."""
        return any(address.startswith("tcp://") and address.endswith(":0") for address in self.addresses.values())

    @property
    def learner_port(self) -> Literal["batches", "chunks"]:
        """The port at which chunks reach a learner."""
        return "batches" if any(role.kind == "buffer" for role in self.roles) else "chunks"


def mean(group: int) -> str:
    """The edge from the Root to a learner."""
    return f"mean{group}"


def chunks(group: int) -> str:
    """The edge from actors to their buffer (or to their learner, where there is no buffer)."""
    return f"chunks{group}"


def batches(group: int) -> str:
    """The edge from a buffer to its learner."""
    return f"batches{group}"


def weights(group: int) -> str:
    """The edge from a learner to its actors."""
    return f"weights{group}"


def model(group: int) -> str:
    """The edge from a learner to the Root."""
    return f"model{group}"


def build(config: TrainConfig, base_uri: str) -> Topology:
    """Lay out the groups and, where there is something to average, their Root.

    Parameters
    ----------
    base_uri
        `shm://DIRECTORY`, `ipc://DIRECTORY` or `memory://NAME`: addresses of edges begin with it.
    """
    roles = lay_out(config)
    return Topology(roles, {edge: f"{base_uri}/{edge}" for edge in edges(roles)})


def edges(roles: Sequence[RoleSpec]) -> dict[str, tuple[RoleSpec, tuple[RoleSpec, ...]]]:
    """Every edge: the role to which others come, and those who come."""
    found: dict[str, tuple[RoleSpec, tuple[RoleSpec, ...]]] = {}
    root = next((role for role in roles if role.kind == "root"), None)
    learners = tuple(role for role in roles if role.kind == "learner")
    for learner in learners:
        g = learner.group
        actors = tuple(role for role in roles if role.kind == "actor" and role.group == g)
        buffer = next((role for role in roles if role.kind == "buffer" and role.group == g), None)
        if buffer is not None:
            found[batches(g)] = learner, (buffer,)
        found[chunks(g)] = buffer or learner, actors
        found[weights(g)] = learner, actors
        if root is not None:
            found[model(g)] = learner, (root,)
            found[mean(g)] = root, (learner,)
    return found


def lay_out(config: TrainConfig) -> tuple[RoleSpec, ...]:
    """The roles of a run."""
    roles = [RoleSpec("root", 0, 0, "root")] if has_root(config) else []
    for g in range(config.groups):
        roles.append(RoleSpec("learner", 0, g, f"learner g{g}"))
        if config.buffer:
            roles.append(RoleSpec("buffer", 0, g, f"buffer g{g}"))
        roles += [RoleSpec("actor", i, g, f"actor g{g}.a{i}") for i in range(config.actors)]
    return tuple(roles)


def place(roles: Sequence[RoleSpec], nodes: int) -> dict[str, int]:
    """The node of each role, by its name: each group has an equal share of the nodes, whole or part of one.

    A group of several nodes has its learner and buffer on the first of them, and its actors dealt out over all. The Root is on
    the first node.
    """
    groups = 1 + max(role.group for role in roles)
    actors = 1 + max(role.index for role in roles if role.kind == "actor")
    where = {}
    for role in roles:
        first, end = (role.group * nodes // groups, (role.group + 1) * nodes // groups)
        span = max(1, end - first)
        where[role.name] = first + role.index * span // actors if role.kind == "actor" else first
    return where


def addresses(
    roles: Sequence[RoleSpec], where: Mapping[str, N], folders: Mapping[N, str], hosts: Mapping[N, str], within: str = "shm"
) -> dict[str, str]:
    """Of every edge: in its node's folder where all its ends are on one node, else a port of the node of who is come to.

    Parameters
    ----------
    where
        the node of each role.
    folders
        private ones, of nodes with several roles.
    hosts
        network addresses of nodes.
    within
        how messages move within a node: `shm` or `ipc`.
    """
    found = {}
    for edge, (owner, others) in edges(roles).items():
        node = where[owner.name]
        together = all(where[other.name] == node for other in others)
        found[edge] = f"{within}://{folders[node]}/{edge}" if together else f"tcp://{hosts[node]}:0"
    return found


def has_root(config: TrainConfig) -> bool:
    """Whether there is a Root."""
    return config.root or config.groups > 1


def chunk_layout(config: TrainConfig, describe: EnvDescription, *, assessed: bool = False) -> ChunkLayout:
    """The layout that every role of this run agrees on; see `tianji.layout.rollout_layout` for `assessed`."""
    return rollout_layout(
        config.fragment_steps,
        config.envs_per_actor,
        describe.observation_shape,
        describe.observation_dtype,
        behaviour=config.algo != "dqn",
        assessed=assessed,
        stack=describe.stack,
    )


def chunk_edge(config: TrainConfig, describe: EnvDescription) -> EdgeSpec:
    """What both ends of this run's chunk edges agree on."""
    return EdgeSpec(chunk_layout(config, describe), config.chunk_slots, config.actors)


def parameters(config: TrainConfig, describe: EnvDescription) -> int:
    """Length of the vector of weights."""
    return networks.build(config.network, describe.features, describe.actions).size


def model_size(config: TrainConfig, describe: EnvDescription) -> int:
    """Length of the vector that travels between a learner and the Root."""
    return message_size(parameters(config, describe), config.groups)
