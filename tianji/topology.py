"""From a configuration to roles and the edges that join them.

A group: its actors push chunks to its buffer, the buffer pushes batches to its learner, the learner pushes weights to its
actors. Without a buffer the actors push to the learner themselves. Where there is a Root, each learner pushes its model to
it, and the Root pushes the mean to all learners.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tianji.algorithms import networks
from tianji.averaging import message_size
from tianji.channel.base import EdgeSpec
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.layout import ChunkLayout, rollout_layout

Kind = Literal["root", "learner", "buffer", "actor"]


class RoleSpec(Struct, frozen=True):
    """One role: what it is, where it stands in its group, and its name as `ps` shows it."""

    kind: Kind
    index: int
    """Of an actor within its group; 0 of the others."""
    group: int
    name: str


class Topology(Struct, frozen=True):
    """Roles in the order in which they can be joined, and the addresses of the edges."""

    roles: tuple[RoleSpec, ...]
    base_uri: str
    """`shm://DIRECTORY`, `ipc://DIRECTORY` or `memory://NAME`."""

    def chunks(self, group: int) -> str:
        """Actors to their buffer (or to their learner, where there is no buffer)."""
        return f"{self.base_uri}/chunks{group}"

    def batches(self, group: int) -> str:
        """A buffer to its learner."""
        return f"{self.base_uri}/batches{group}"

    def weights(self, group: int) -> str:
        """A learner to its actors."""
        return f"{self.base_uri}/weights{group}"

    def model(self, group: int) -> str:
        """A learner to the Root."""
        return f"{self.base_uri}/model{group}"

    @property
    def mean(self) -> str:
        """The Root to all learners."""
        return f"{self.base_uri}/mean"

    @property
    def learner_port(self) -> Literal["batches", "chunks"]:
        """The port at which chunks reach a learner."""
        return "batches" if any(role.kind == "buffer" for role in self.roles) else "chunks"


def build(config: TrainConfig, base_uri: str) -> Topology:
    """Lay out the groups and, where there is something to average, their Root."""
    roles = [RoleSpec("root", 0, 0, "root")] if has_root(config) else []
    for g in range(config.groups):
        roles.append(RoleSpec("learner", 0, g, f"learner g{g}"))
        if config.buffer:
            roles.append(RoleSpec("buffer", 0, g, f"buffer g{g}"))
        roles += [RoleSpec("actor", i, g, f"actor g{g}.a{i}") for i in range(config.actors)]
    return Topology(tuple(roles), base_uri)


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
