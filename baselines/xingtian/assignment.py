"""What a process is told when it starts: which one it is, on which node, and where the sockets of that node are."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tianji.channel.security import Keys
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
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
    """All that a process is told, by its launcher."""

    kind: Literal["learner", "broker", "explorer"]
    index: int
    """Of an explorer, over all nodes; of a broker, that of its node; 0 of the learner."""
    config: TrainConfig
    """`actors` are the explorers of all nodes, `chunk_slots` the fragments that each may have in flight."""
    describe: EnvDescription
    parameters: int
    """Of the network."""
    nodes: int
    host: str
    """Address of its node."""
    base_uri: str
    """Of its node's sockets."""
    control_uri: str
    """Of the launcher."""
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
        """What sockets between hosts are to use."""
        return None if self.keys is None else Keys(*(key.encode() for key in self.keys))

    @property
    def layout(self) -> ChunkLayout:
        """Of a fragment: PPO's explorers assess what they did."""
        return chunk_layout(self.config, self.describe, assessed=self.config.on_policy)

    def explorers(self, node: int) -> list[int]:
        """Who explores on a node."""
        return [i for i in range(self.config.actors) if node_of(i, self.config.actors, self.nodes) == node]


def node_of(explorer: int, explorers: int, nodes: int) -> int:
    """The node of an explorer: each has an equal share of them."""
    return explorer * nodes // explorers
