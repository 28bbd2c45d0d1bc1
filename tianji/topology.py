"""Topology of a run: its roles and the edges between them, from a configuration.

In a group, actors push chunks to the buffer, the buffer pushes batches to the learner, and the learner pushes weights to the
actors. Without a buffer, actors push to the learner. With a Root, each learner pushes its model to it, and the Root pushes the
mean back. Roots may form a tree, in which each exchanges models with the one above in the same way.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from tianji.algorithms import networks
from tianji.algorithms.normalisation import Sizes
from tianji.channel.base import EdgeSpec
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.layout import ChunkLayout, rollout_layout

Kind = Literal["root", "learner", "buffer", "actor"]
N = TypeVar("N", bound=Hashable)

TOP = "root"
"""Name of the Root that has none above it."""


class RoleSpec(Struct, frozen=True):
    """One role: its kind, its group and index, and its name as `ps` shows it."""

    kind: Kind
    index: int
    """Number of an actor within its group; 0 for other roles."""
    group: int
    """Number of its group; of a Root: the first group under it."""
    name: str
    under: str = ""
    """Name of the Root with which a learner or a Root exchanges models; empty: none."""


class Topology(Struct, frozen=True):
    """Roles in an order in which they can be connected, and the address of each edge by its name."""

    roles: tuple[RoleSpec, ...]
    addresses: dict[str, str]

    @property
    def open_ports(self) -> bool:
        """Whether some address is known only after it was bound."""
        return any(address.startswith("tcp://") and address.endswith(":0") for address in self.addresses.values())

    def only(self, edges: Iterable[str]) -> Topology:
        """The same roles with the addresses of these edges alone."""
        return Topology(self.roles, {edge: self.addresses[edge] for edge in edges})

    @property
    def learner_port(self) -> Literal["batches", "chunks"]:
        """Port on which a learner receives chunks."""
        return "batches" if any(role.kind == "buffer" for role in self.roles) else "chunks"


def mean(role: RoleSpec) -> str:
    """The edge to a learner or a Root from the Root above."""
    return f"mean{_in_tree(role)}"


def chunks(group: int) -> str:
    """The edge from actors to their buffer, or to their learner if there is no buffer."""
    return f"chunks{group}"


def batches(group: int) -> str:
    """The edge from a buffer to its learner."""
    return f"batches{group}"


def weights(group: int) -> str:
    """The edge from a learner to its actors."""
    return f"weights{group}"


def model(role: RoleSpec) -> str:
    """The edge from a learner or a Root to the Root above."""
    return f"model{_in_tree(role)}"


def _in_tree(role: RoleSpec) -> str:
    return role.name.removeprefix(TOP).replace(" ", "-") if role.kind == "root" else str(role.group)


def build(config: TrainConfig, base_uri: str) -> Topology:
    """Make the topology of a run on one host: its groups and, if needed, the Root.

    Parameters
    ----------
    base_uri
        prefix of the edges' addresses: `shm://DIRECTORY`, `ipc://DIRECTORY` or `memory://NAME`.
    """
    roles = lay_out(config)
    return Topology(roles, {edge: f"{base_uri}/{edge}" for edge in edges(roles)} | within_processes(config, roles))


def seats(config: TrainConfig, roles: Sequence[RoleSpec]) -> list[tuple[RoleSpec, ...]]:
    """Roles of each process. A process is named after its first role."""
    joined = config.with_learner
    at: dict[str, list[RoleSpec]] = {}
    for role in roles:
        # A learner comes before the other roles of its group.
        seat = f"learner g{role.group}" if f"{role.kind}{role.index}" in joined else role.name
        at.setdefault(seat, []).append(role)
    return [tuple(there) for there in at.values()]


def within_processes(config: TrainConfig, roles: Sequence[RoleSpec]) -> dict[str, str]:
    """Addresses of the edges whose ends share a process."""
    seat = {role.name: there[0].name for there in seats(config, roles) for role in there}
    return {
        edge: f"memory://{edge}"
        for edge, (owner, others) in edges(roles).items()
        if all(seat[other.name] == seat[owner.name] for other in others)
    }


def edges(roles: Sequence[RoleSpec]) -> dict[str, tuple[RoleSpec, tuple[RoleSpec, ...]]]:
    """Every edge by its name: the role that binds it, and the roles that connect to it."""
    found: dict[str, tuple[RoleSpec, tuple[RoleSpec, ...]]] = {}
    of: dict[tuple[Kind, int], list[RoleSpec]] = {}
    for role in roles:
        of.setdefault((role.kind, role.group), []).append(role)
    roots = {role.name: role for role in roles if role.kind == "root"}
    for role in roles:
        if role.under:
            found[model(role)] = role, (roots[role.under],)
            found[mean(role)] = roots[role.under], (role,)
    for learner in (role for role in roles if role.kind == "learner"):
        g = learner.group
        actors = tuple(of["actor", g])
        buffer = of["buffer", g][0] if ("buffer", g) in of else None
        if buffer is not None:
            found[batches(g)] = learner, (buffer,)
        found[chunks(g)] = buffer or learner, actors
        found[weights(g)] = learner, actors
    return found


def edges_of(roles: Sequence[RoleSpec]) -> dict[str, list[str]]:
    """Names of the edges at which each role has an end, by the role's name."""
    found: dict[str, list[str]] = {role.name: [] for role in roles}
    for edge, (owner, others) in edges(roles).items():
        for role in (owner, *others):
            found[role.name].append(edge)
    return found


def lay_out(config: TrainConfig) -> tuple[RoleSpec, ...]:
    """The roles of a run."""
    roles: list[RoleSpec] = []
    above = dict.fromkeys(range(config.groups), "")
    if has_root(config):
        _hang(RoleSpec("root", 0, 0, TOP), range(config.groups), config.fan_in or config.groups, roles, above)
    for g in range(config.groups):
        roles.append(RoleSpec("learner", 0, g, f"learner g{g}", above[g]))
        if config.buffer:
            roles.append(RoleSpec("buffer", 0, g, f"buffer g{g}"))
        roles += [RoleSpec("actor", i, g, f"actor g{g}.a{i}") for i in range(config.actors)]
    return tuple(roles)


def _hang(root: RoleSpec, groups: range, most: int, roots: list[RoleSpec], above: dict[int, str]) -> None:
    """Hang groups under a Root, with as few levels of Roots as fit if each has at most `most` children, in equal shares.

    Parameters
    ----------
    roots
        takes the Roots, each before those under it.
    above
        takes the name of the Root above each group.
    """
    roots.append(root)
    reach = 1
    while reach * most < len(groups):
        reach *= most  # Groups that fit under one child.
    shares = -(-len(groups) // reach)
    for n in range(shares):
        part = groups[n * len(groups) // shares : (n + 1) * len(groups) // shares]
        if len(part) == 1:
            above[part[0]] = root.name
        else:
            name = f"{root.name}{'.' if root.under else ' '}{n}"
            _hang(RoleSpec("root", 0, part[0], name, root.name), part, most, roots, above)


def place(roles: Sequence[RoleSpec], nodes: int) -> dict[str, int]:
    """Number of the node of each role, by the role's name. Groups have equal shares of the nodes.

    A group on several nodes has its learner and buffer on the first of them, and its actors spread over all. A Root is on the
    node of the first group under it, so the top one is on the first node.
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
    config: TrainConfig,
    roles: Sequence[RoleSpec],
    where: Mapping[str, N],
    folders: Mapping[N, str],
    hosts: Mapping[N, str],
) -> dict[str, str]:
    """Address of every edge: in the node's folder if all ends are on one node, else a tcp port of the node that binds it.

    Parameters
    ----------
    where
        the node of each role.
    folders
        private folders of nodes with several processes.
    hosts
        network addresses of nodes.
    """
    found = within_processes(config, roles)
    for edge, (owner, others) in edges(roles).items():
        node = where[owner.name]
        together = all(where[other.name] == node for other in others)
        if edge not in found:
            found[edge] = f"{config.channel}://{folders[node]}/{edge}" if together else f"tcp://{hosts[node]}:0"
    return found


def has_root(config: TrainConfig) -> bool:
    """Whether the run has a Root."""
    return config.root or config.groups > 1


def chunk_layout(config: TrainConfig, describe: EnvDescription, *, assessed: bool = False) -> ChunkLayout:
    """Layout of this run's chunks; see `tianji.layout.rollout_layout` for `assessed`."""
    return rollout_layout(
        config.fragment_steps,
        config.envs_per_actor,
        describe.stored_shape,
        describe.stored_dtype,
        behaviour=config.hyperparameters.behaviour,
        assessed=assessed,
        stack=describe.stack,
        action_shape=describe.actions.stored_shape,
        action_dtype=describe.actions.stored_dtype,
        statistics=Sizes(config.normalise, describe).all,
    )


def chunk_edge(config: TrainConfig, describe: EnvDescription) -> EdgeSpec:
    """Sizes on which both ends of this run's chunk edges agree."""
    return EdgeSpec(chunk_layout(config, describe), config.chunk_slots, config.actors)


def parameters(config: TrainConfig, describe: EnvDescription) -> int:
    """Number of parameters of the network."""
    return networks.of(config, describe).size


def acting_parameters(config: TrainConfig, describe: EnvDescription) -> int:
    """Number of parameters that actors need."""
    return networks.of(config, describe).acting
