"""What a session will run: blocks of cells, laid out before the first one starts, and kept in `session.json`."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from suites.cli import ConfigError

SCHEMA = "tianji-bench/session/1"


class Profile(Struct, frozen=True, kw_only=True):
    """How much of a suite is run."""

    workloads: tuple[str, ...]
    systems: tuple[str, ...]
    blocks: int
    twice: str
    """The system that runs twice in each block: A against A shows the noise floor."""


class Cell(Struct, frozen=True, kw_only=True):
    """One run."""

    workload: str
    system: str
    replica: int
    block: int
    position: int
    seed: int

    @property
    def label(self) -> str:
        """The system, and whether it is its second run of the block."""
        return f"{self.system}-again" if self.replica else self.system

    @property
    def directory(self) -> str:
        """Name of its folder."""
        return f"{self.workload}.b{self.block}.p{self.position}.{self.label}"


class Plan(Struct, frozen=True, kw_only=True):
    """A session, complete."""

    schema: str = SCHEMA
    session: str
    suite: str
    profile: str
    workloads: dict[str, Any]
    """The complete workloads as they stood: a session that is resumed goes on with the same."""
    systems: tuple[str, ...]
    cores: tuple[int, ...]
    cells: tuple[Cell, ...]

    def blocks(self) -> list[tuple[Cell, ...]]:
        """Cells that belong together: every system once, same workload, same seed."""
        keys = sorted({(cell.block, cell.workload) for cell in self.cells})
        return [tuple(c for c in self.cells if (c.block, c.workload) == key) for key in keys]


def lay_out(
    suite: str,
    profile_name: str,
    profile: Profile,
    workloads: dict[str, Any],
    systems: tuple[str, ...],
    blocks: int,
    cores: tuple[int, ...],
) -> Plan:
    """Blocks in which every system runs once, in an order that rotates; block k uses seed k."""
    twice = profile.twice if profile.twice in systems else systems[0]
    round_of = [(system, 0) for system in systems] + [(twice, 1)]
    cells = [
        Cell(workload=workload, system=system, replica=replica, block=block, position=position, seed=block)
        for block in range(blocks)
        for workload in workloads
        for position, (system, replica) in enumerate(_rotate(round_of, block))
    ]
    return Plan(
        session=secrets.token_hex(6),
        suite=suite,
        profile=profile_name,
        workloads=workloads,
        systems=systems,
        cores=cores,
        cells=tuple(cells),
    )


def _rotate(items: list[tuple[str, int]], by: int) -> list[tuple[str, int]]:
    by %= len(items)
    return items[by:] + items[:by]


def read(path: Path) -> Plan:
    """Read a session file.

    Raises
    ------
    ConfigError
        when it is damaged or of another schema.
    """
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: damaged session file: {error}") from None
    if plan.schema != SCHEMA:
        raise ConfigError(f"{path}: has schema {plan.schema}; this version reads {SCHEMA}")
    return plan
