"""What a process is told when it starts: which one it is, where the others are and which memory they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from tianji.channel.arena import Arena
from tianji.channel.board import WeightBoard
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.layout import ChunkLayout
from tianji.messages import SlotRef
from tianji.topology import chunk_layout


class Wiring(Struct, frozen=True):
    """Where messages go: the addresses of a run."""

    base_uri: str
    explorers: int

    @property
    def control(self) -> str:
        """Of the launcher."""
        return f"{self.base_uri}/control"

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


class Assignment(Struct, frozen=True):
    """All that a process is told, by its launcher."""

    kind: Literal["learner", "broker", "explorer"]
    index: int
    config: TrainConfig
    """`actors` are the explorers, `chunk_slots` the fragments that each may have in flight."""
    describe: EnvDescription
    base_uri: str
    parent: int
    arena_fds: tuple[int, ...]
    """Descriptor of each explorer's arena, inherited."""
    weights_fd: int
    parameters: int

    @property
    def name(self) -> str:
        return f"explorer {self.index}" if self.kind == "explorer" else self.kind

    @property
    def wiring(self) -> Wiring:
        """The addresses of this run."""
        return Wiring(self.base_uri, self.config.actors)

    @property
    def layout(self) -> ChunkLayout:
        """Of a fragment: PPO's explorers assess what they did."""
        return chunk_layout(self.config, self.describe, assessed=self.config.on_policy)

    def map_arenas(self) -> Callable[[SlotRef], memoryview]:
        """Map every arena, for as long as the process lives."""
        arenas = [Arena(fd, self.config.chunk_slots, self.layout.capacity_bytes) for fd in self.arena_fds]
        return lambda slot: arenas[slot.arena].slot(slot.slot)

    def map_store(self) -> WeightBoard:
        """Map the one copy of the weights."""
        return WeightBoard(self.weights_fd, self.parameters)
