"""Plan of a session: blocks of cells, fixed before the first one starts and stored in `session.json`."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from programs.cli import ConfigError
from suites.records.bundle import Scalar
from suites.records.predictions import Predictions
from suites.records.statement import Statement
from suites.records.tuned import Tuned
from suites.statistics.summary import AGAIN

SCHEMA = "tianji-bench/session/1"


class Cell(Struct, frozen=True, kw_only=True):
    """One run."""

    workload: str
    system: str
    replica: int
    block: int
    position: int
    seed: int
    explorers: int | None = None
    """Number of explorers, if it is part of the comparison."""
    nodes: int | None = None
    """Likewise."""
    options: dict[str, Scalar] = {}
    """Values of further axes."""

    @property
    def label(self) -> str:
        """The system, and whether it is its second run of the block."""
        return f"{self.system}{AGAIN}" if self.replica else self.system

    @property
    def directory(self) -> str:
        """Name of its folder."""
        return f"{self.setting}.b{self.block}.p{self.position}.{self.label}"

    @property
    def setting(self) -> str:
        """Setting that all systems of its block share."""
        parts = [self.workload]
        parts += [] if self.explorers is None else [f"n{self.explorers}"]
        parts += [] if self.nodes is None else [f"nodes{self.nodes}"]
        parts += [re.sub(r"[^\w-]+", "_", f"{name}-{value}") for name, value in sorted(self.options.items())]
        return ".".join(parts)


class Repeat(Struct, frozen=True):
    """A block that ran again, because the machine changed during it. Its runs stay; a report takes the last ones."""

    block: int
    of: int
    """The block that was planned, with the same seed."""
    changed: float
    """By what share the machine's speed differed in the run of it before this one."""


class Plan(Struct, frozen=True, kw_only=True):
    """A session, complete."""

    schema: str = SCHEMA
    session: str
    suite: str
    profile: str
    workloads: dict[str, Any]
    """Complete workloads at the start of the session, which a resumed session uses again."""
    systems: tuple[str, ...]
    cores: tuple[int, ...]
    cells: tuple[Cell, ...]
    noise_floor: float | None = None
    """Noise floor of the machine when the session began (see `suites.records.machine.noise_floor`)."""
    load_1min: float | None = None
    """Load over one minute when the session began, before any of its own work."""
    claim: str | None = None
    """What the session is for."""
    looks: int = 1
    """How often results are looked at before measuring ends."""
    busy: bool = False
    """Whether the machine may be busy when it begins; afterwards, whether it was."""
    tuned: tuple[Tuned, ...] = ()
    """Of the open division: the settings of each system on each workload, with the trials behind them."""
    predictions: Predictions | None = None
    """What was predicted of its cells. A report compares with nothing that was predicted later."""
    repeats: tuple[Repeat, ...] = ()
    """Blocks that were added, because the machine changed during others. Their cells come last."""

    def stated(self) -> Statement:
        """What is written down before the first run."""
        return Statement(
            session=self.session,
            written=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            claim=self.claim,
            suite=self.suite,
            profile=self.profile,
            systems=self.systems,
            workloads=tuple(self.workloads),
            seeds=tuple(sorted({cell.seed for cell in self.cells})),
            looks=self.looks,
            busy=self.busy,
            load_1min=self.load_1min,
            noise_floor=self.noise_floor,
            predictions=self.predictions,
        )

    @property
    def planned(self) -> tuple[Cell, ...]:
        """Cells that were planned before the first run."""
        more = {one.block for one in self.repeats}
        return tuple(cell for cell in self.cells if cell.block not in more)

    def repeated(self, cells: Sequence[Cell], changed: float) -> Plan:
        """The plan in which a block runs again after all others, with the same seed and order."""
        number = max(cell.block for cell in self.cells) + 1
        first = next((one.of for one in self.repeats if one.block == cells[0].block), cells[0].block)
        return msgspec.structs.replace(
            self,
            cells=(*self.cells, *(msgspec.structs.replace(cell, block=number) for cell in cells)),
            repeats=(*self.repeats, Repeat(number, first, round(changed, 3))),
        )

    def blocks(self) -> list[tuple[Cell, ...]]:
        """Cells that belong together: every system once, same workload, same seed; in the order of the plan."""
        grouped: dict[tuple[int, str], list[Cell]] = {}
        for cell in self.cells:
            grouped.setdefault((cell.block, cell.setting), []).append(cell)
        return [tuple(cells) for cells in grouped.values()]


def new_session() -> str:
    """A name for a session that no other has."""
    return secrets.token_hex(6)


def block_of(
    workload: str,
    systems: Sequence[str],
    twice: str | None,
    block: int,
    explorers: int | None = None,
    first_seed: int = 0,
    nodes: int | None = None,
    options: Mapping[str, Scalar] | None = None,
) -> Iterator[Cell]:
    """One block: every system once, one of them twice, in an order that is drawn; seeds count up by block.

    The order is drawn for each block by its setting and its seed. So the same request gives the same plan, and nothing has the
    same neighbour in every block, as it would in an order that rotates.

    Parameters
    ----------
    twice
        the system that runs again (the first one where it is not among them): A against A shows the noise floor. None: no
        system does.
    """
    again = [] if twice is None else [(twice if twice in systems else systems[0], 1)]
    round_of = [(system, 0) for system in systems] + again
    cells = [
        Cell(
            workload=workload,
            system=system,
            replica=replica,
            block=block,
            position=0,
            seed=first_seed + block,
            explorers=explorers,
            nodes=nodes,
            options=dict(options or {}),
        )
        for system, replica in round_of
    ]
    for position, cell in enumerate(sorted(cells, key=_lot)):
        yield msgspec.structs.replace(cell, position=position)


def _lot(cell: Cell) -> bytes:
    """What a cell draws; the least begins the block. A hash is the same in every version of Python and for any list."""
    return sha256(f"{cell.setting} {cell.seed} {cell.label}".encode()).digest()


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
