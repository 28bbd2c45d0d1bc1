"""What a suite is to the command line and the runner: it checks what is asked of it, lays cells out, and measures one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from suites.records.bundle import Manifest
from suites.session.plan import Cell, Plan


class Request(Struct, frozen=True, kw_only=True):
    """What somebody wants to have run; None: as the profile says."""

    profile: str
    systems: tuple[str, ...] | None
    workloads: tuple[str, ...] | None
    blocks: int | None
    first_seed: int
    """Of the first block; the others count up from it."""
    once: bool
    """Whether no system runs twice in a block."""
    testbed: str | None
    nodes: tuple[int, ...] | None = None
    """How many, of a suite that asks what their number does."""
    cores: tuple[int, ...]


class Suite(ABC):
    """One kind of measurement."""

    name: str
    about: str
    profiles: Mapping[str, Any]
    testbeds: tuple[str, ...]
    sized: bool = False
    """Whether it asks what the number of nodes does."""

    @abstractmethod
    def workloads(self) -> dict[str, str]:
        """Ids and titles of what it can run."""

    @abstractmethod
    def systems(self) -> dict[str, tuple[str, str | None]]:
        """Ids of what it can measure: title, and why that cannot run here."""

    @abstractmethod
    def plan(self, request: Request) -> tuple[Plan, list[str]]:
        """Lay a session out, and say what was left out because it cannot run here.

        Raises
        ------
        ConfigError
            for what is unknown, does not fit together, or leaves nothing to run.
        """

    def before(self, plan: Plan, out: Path) -> None:  # noqa: B027 (a suite may need nothing)
        """Do what is done once a session, before the first cell."""

    @abstractmethod
    def run_cell(self, plan: Plan, cell: Cell, out: Path, progress: Callable[[float, str], None]) -> Manifest:
        """Measure one cell and publish its bundle."""
