"""Shared memory of a node: one copy of the weights, and an arena for each explorer's fragments.

The broker of the node makes it as nameless files, and the node's other processes map them. The kernel frees it when the last of
these processes ends.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack

from baselines.xingtian.assignment import Assignment
from tianji.channel.arena import Arena, anonymous_file, open_file_of
from tianji.channel.base import ChannelError
from tianji.channel.board import WeightBoard
from tianji.messages import SlotRef


def _store(node: int) -> str:
    return f"store of node {node}"


def _arena(explorer: int, node: int) -> str:
    return f"arena {explorer} on node {node}"


class NodeMemory:
    """The memory of a broker's node; a context manager, after which it is the others' alone.

    A node has an arena for each of its explorers. The learner's has one for every explorer: what comes from another node is
    copied to the same slot here, and so a slot has one name on its way.
    """

    def __init__(self, assignment: Assignment) -> None:
        a = assignment
        self._slots, self._slot_bytes = a.config.chunk_slots, a.layout.capacity_bytes
        self._files: dict[str, int] = {}
        with ExitStack() as opened:
            self.store = WeightBoard(
                self._file(opened, _store(a.node), "xingtian-weights", WeightBoard.size_bytes(a.parameters)), a.parameters
            )
            size = Arena.size_bytes(self._slots, self._slot_bytes)
            self._arenas = {
                i: Arena(self._file(opened, _arena(i, a.node), f"xingtian-arena-{i}", size), self._slots, self._slot_bytes)
                for i in (a.explorers(a.node) if a.node else range(a.config.actors))
            }
            self._opened = opened.pop_all()

    def _file(self, opened: ExitStack, name: str, label: str, size_bytes: int) -> int:
        self._files[name] = fd = anonymous_file(label, size_bytes)
        opened.callback(os.close, fd)
        return fd

    @property
    def addresses(self) -> dict[str, str]:
        """Descriptors under which it is open, by name."""
        return {name: f"{os.getpid()}/{fd}" for name, fd in self._files.items()}

    def body(self, slot: SlotRef, size_bytes: int) -> memoryview:
        """The memory of a fragment; `ChannelError` where there is none such."""
        arena = self._arenas.get(slot.arena)
        if arena is None or slot.slot >= self._slots or size_bytes > self._slot_bytes:
            raise ChannelError(f"no room for {size_bytes} bytes in slot {slot.slot} of arena {slot.arena}")
        return arena.slot(slot.slot)[:size_bytes]

    def __enter__(self) -> NodeMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


class SharedMemory:
    """The memory of a node as a learner or an explorer of it sees it, once it has been found."""

    store: WeightBoard

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._arenas: dict[int, Arena] = {}

    def find(self, addresses: Mapping[str, str]) -> None:
        """Map it, for as long as the process lives: of an explorer its own arena, of the learner all.

        Raises
        ------
        ChannelError
            when it is not on this host, or not ours.
        """
        a, slot_bytes = self._assignment, self._assignment.layout.capacity_bytes
        learns, slots = a.kind == "learner", a.config.chunk_slots
        fd = _open(addresses[_store(a.node)], WeightBoard.size_bytes(a.parameters), writable=learns)
        self.store = WeightBoard(fd, a.parameters, writable=learns)
        os.close(fd)
        for explorer in range(a.config.actors) if learns else [a.index]:
            fd = _open(addresses[_arena(explorer, a.node)], Arena.size_bytes(slots, slot_bytes), writable=True)
            self._arenas[explorer] = Arena(fd, slots, slot_bytes)
            os.close(fd)

    def slot(self, slot: SlotRef) -> memoryview:
        """The memory of a slot."""
        return self._arenas[slot.arena].slot(slot.slot)


def _open(address: str, size_bytes: int, *, writable: bool) -> int:
    pid, _, fd = address.partition("/")
    return open_file_of(int(pid), int(fd), size_bytes, writable=writable)
