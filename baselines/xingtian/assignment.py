"""Assignment of a process at its start: its kind and number, its node, and the sockets of that node."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tianji.channel.security import Keys
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.layout import ChunkLayout
from tianji.topology import chunk_layout


class Doors(Struct, frozen=True):
    """Addresses of a node's sockets, all under one private folder."""

    base_uri: str

    @property
    def upward(self) -> str:
        """Explorers push to it, the broker pulls."""
        return f"{self.base_uri}/upward"

    @property
    def downward(self) -> str:
        """The learner pushes to it, the broker pulls."""
        return f"{self.base_uri}/downward"

    @property
    def learner(self) -> str:
        """The broker pushes to it, the learner pulls."""
        return f"{self.base_uri}/learner"

    def explorer(self, index: int) -> str:
        """The broker pushes to it, that explorer pulls."""
        return f"{self.base_uri}/explorer-{index}"


class Assignment(Struct, frozen=True, kw_only=True):
    """Everything that a launcher tells a process."""

    kind: Literal["learner", "broker", "explorer"]
    index: int
    """Number of an explorer over all nodes, or of a broker's node; 0 for the learner."""
    config: TrainConfig
    """`actors` are the explorers of all nodes, `chunk_slots` the fragments that each may have in flight."""
    describe: EnvDescription
    parameters: int
    """Number of parameters of the network that explorers need."""
    nodes: int
    host: str
    """Address of its node."""
    base_uri: str
    """Prefix of its node's socket addresses."""
    control_uri: str
    """Address of the launcher's socket."""
    parent: int | None = None
    """The launcher's process, where this one is to end with it."""
    keys: tuple[str, str] | None = None
    """Public and secret, of a run that crosses hosts."""
    compress: bool = True
    """Whether large bodies are compressed between nodes."""

    @property
    def node(self) -> int:
        """The node that it is on. The learner is on the first."""
        if self.kind == "explorer":
            return node_of(self.index, self.config.actors, self.nodes)
        return self.index if self.kind == "broker" else 0

    @property
    def name(self) -> str:
        alone = self.kind == "learner" or (self.kind == "broker" and self.nodes == 1)
        return self.kind if alone else f"{self.kind} {self.index}"

    @property
    def doors(self) -> Doors:
        """The sockets of its node."""
        return Doors(self.base_uri)

    @property
    def run_keys(self) -> Keys | None:
        """Keys for sockets between hosts."""
        return None if self.keys is None else Keys(*(key.encode() for key in self.keys))

    @property
    def layout(self) -> ChunkLayout:
        """Layout of a fragment. PPO's explorers compute advantages themselves."""
        return chunk_layout(self.config, self.describe, assessed=self.config.rule.on_policy)

    def explorers(self, node: int) -> list[int]:
        """Numbers of the explorers on a node."""
        return [i for i in range(self.config.actors) if node_of(i, self.config.actors, self.nodes) == node]


def node_of(explorer: int, explorers: int, nodes: int) -> int:
    """The node of an explorer: each has an equal share of them."""
    return explorer * nodes // explorers
