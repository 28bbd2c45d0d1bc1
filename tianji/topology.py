"""From a configuration to roles and the edges that join them.

One group: its actors push chunks to the buffer, the buffer pushes batches to the learner, the learner pushes weights
to the actors. Without a buffer the actors push to the learner themselves.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tianji.algorithms import networks
from tianji.channel.base import EdgeSpec
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.layout import ChunkLayout, rollout_layout

Kind = Literal["learner", "buffer", "actor"]


class RoleSpec(Struct, frozen=True):
    """One role: what it is, where it stands in its group, and its name as `ps` shows it."""

    kind: Kind
    index: int
    name: str


class Topology(Struct, frozen=True):
    """Roles in the order in which they can be joined, and the addresses of the edges."""

    roles: tuple[RoleSpec, ...]
    chunks_uri: str
    """Actors to the buffer (or to the learner, where there is no buffer)."""
    batches_uri: str
    """Buffer to the learner."""
    weights_uri: str

    @property
    def learner_port(self) -> str:
        """The port at which chunks reach the learner."""
        return "batches" if any(role.kind == "buffer" for role in self.roles) else "chunks"


def build(config: TrainConfig, base_uri: str) -> Topology:
    """Lay out one group; `base_uri` is `shm://DIRECTORY`, `ipc://DIRECTORY` or `memory://NAME`."""
    roles = [RoleSpec("learner", 0, "learner g0")]
    if config.buffer:
        roles.append(RoleSpec("buffer", 0, "buffer g0"))
    roles += [RoleSpec("actor", i, f"actor g0.a{i}") for i in range(config.actors)]
    return Topology(tuple(roles), f"{base_uri}/chunks", f"{base_uri}/batches", f"{base_uri}/weights")


def chunk_layout(config: TrainConfig, describe: EnvDescription, *, assessed: bool = False) -> ChunkLayout:
    """The layout that every role of this run agrees on; see `tianji.layout.rollout_layout` for `assessed`."""
    return rollout_layout(
        config.fragment_steps,
        config.envs_per_actor,
        describe.observation_shape,
        describe.observation_dtype,
        behaviour=config.algo == "ppo",
        assessed=assessed,
    )


def chunk_edge(config: TrainConfig, describe: EnvDescription) -> EdgeSpec:
    """What both ends of this run's chunk edges agree on."""
    return EdgeSpec(chunk_layout(config, describe), config.chunk_slots, config.actors)


def parameters(config: TrainConfig, describe: EnvDescription) -> int:
    """Length of the vector of weights."""
    return networks.build(config.network, describe.features, describe.actions).size
