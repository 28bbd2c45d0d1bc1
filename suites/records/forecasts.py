"""Files of predicted throughput on many nodes. They are no bundles: no report pools them with what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from suites.records import bundle, limits, store
from suites.records.bundle import BundleError
from suites.records.limits import Amount, Positive, Text

SCHEMA = "tianji-bench/forecast/1"
SUFFIX = ".forecast.json"
"""How the name of such a file ends."""

Topology = Literal["groups", "one learner"]


class Point(Struct, frozen=True, forbid_unknown_fields=True):
    """One simulated run."""

    topology: Topology
    """A group a node with a Root, or one learner for the actors of all nodes."""
    discipline: Text
    gbit: Amount
    """Bandwidth of each node's link, in Gbit/s."""
    nodes: Positive
    rounds: Positive
    """Rounds of the window that was simulated."""
    samples_per_s: Amount
    """Samples trained on, each counted once."""
    age_rounds: Amount
    binds: Text
    system: Text | None = None
    """System of the scaling suite that runs like this; None: none was measured."""


class Forecasts(Struct, frozen=True, forbid_unknown_fields=True):
    """What was simulated of one experiment of the scaling suite."""

    schema: Literal["tianji-bench/forecast/1"]
    experiment: Text
    """The workload, as scaling bundles name it."""
    testbed: Text
    """Testbed whose nodes were simulated."""
    link_gbit: Amount
    """Bandwidth of that testbed's links."""
    command: Text
    """What made the file."""
    commit: Text
    measured_from: Text
    """Where the times of work come from."""
    times_s: dict[Text, Amount]
    """Times of work in seconds of a core."""
    points: Annotated[list[Point], Meta(max_length=10_000)]


def write(forecasts: Forecasts, path: Path) -> None:
    """Write a file that `read` reads."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(forecasts), indent=1) + b"\n")


def read(roots: Iterable[Path]) -> list[Forecasts]:
    """Read every such file under these folders, sorted by path; a root may be such a file, too.

    Raises
    ------
    BundleError
        for the first one that is damaged.
    """
    found = []
    for path in sorted({file for root in roots for file in files(root)}):
        try:
            found.append(msgspec.json.decode(limits.contents(path), type=Forecasts))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BundleError(f"{path}: no forecast: {error}") from None
    return found


def measured(roots: Sequence[Path]) -> list[Path]:
    """These places without those that hold forecasts alone. All of them, if none holds anything else."""
    found = [root for root in roots if not (files(root) and not _holds_runs(root))]
    return found or list(roots)


def _holds_runs(root: Path) -> bool:
    return not _is_one(root.name) and bool(store.sealed([root]) or bundle.find([root]))


def files(root: Path) -> list[Path]:
    """Files of forecasts under a folder, or the root itself if it is one."""
    return [root] if _is_one(root.name) else limits.found(root, _is_one) if root.is_dir() else []


def _is_one(name: str) -> bool:
    return name.endswith(SUFFIX)
