"""The record of two revisions measured in turns on one machine: `comparison.json`.

It is written after every round, so an interrupted comparison can still be judged (`suites.statistics.gate`).
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import pandas as pd
from msgspec import Struct

from suites.records import limits, promises
from suites.records.limits import Amount, BundleError, Count, Number, Prose, Text
from suites.statistics.gate import Better, Rule, worsening

SCHEMA = "tianji-bench/comparison/1"
FILE = "comparison.json"
Side = Literal["base", "head"]
FILE_BYTES = 16 << 20


class Metric(Struct, frozen=True):
    """A metric and a description of its work; values of different work are not compared."""

    name: Text
    about: Text
    unit: Text
    better: Better
    configuration: dict[str, Any]


class Round(Struct, frozen=True):
    """Both revisions in fresh processes, measured in turns."""

    seed: Count
    first: Side
    pairs: dict[str, list[tuple[Number, Number]]]
    """By metric: values of base and head, next to each other in time."""
    seconds: Amount
    """That the round took."""


class Comparison(Struct, frozen=True, kw_only=True):
    """Two revisions, measured in turns."""

    schema: str = SCHEMA
    environments: dict[Side, dict[str, Any]]
    metrics: tuple[Metric, ...]
    left_out: dict[Text, Prose] = {}
    """Metrics that cannot be compared, and why."""
    failed: tuple[Prose, ...] = ()
    """Runs of the head that failed where the base's did not."""
    planted: Text | None = None
    """How the head was made worse on purpose, in a trial of the gate."""
    size: float = Rule.size
    error: float = Rule.error
    looks: tuple[int, ...] = Rule.looks
    rounds: tuple[Round, ...] = ()

    @property
    def rule(self) -> Rule:
        """By which it is judged."""
        return Rule(self.size, self.error, self.looks)

    @property
    def better(self) -> Mapping[str, Better]:
        """By metric, which direction is the good one."""
        return {metric.name: metric.better for metric in self.metrics}

    def worsenings(self) -> dict[str, list[float]]:
        """By metric, one number a round: the median over its pairs, which one hiccup does not move."""
        return {
            metric.name: [
                statistics.median(worsening(base, head, metric.better) for base, head in one.pairs[metric.name])
                for one in self.rounds
            ]
            for metric in self.metrics
        }


def read(path: Path) -> Comparison:
    """Read a comparison.

    Parameters
    ----------
    path
        the file, or the folder that it is in.

    Raises
    ------
    BundleError
        when there is none, or it is damaged, or of another schema, or a round lacks a metric.
    """
    file = path / FILE if path.is_dir() else path
    data = limits.contents(file, FILE_BYTES)
    try:
        schema = msgspec.json.decode(data, type=_Schema).schema
        if schema != SCHEMA:
            raise BundleError(f"{file}: has schema {schema}; this version reads {SCHEMA}")
        found = msgspec.json.decode(data, type=Comparison)
        for side in ("base", "head"):
            promises.check("", {}, found.environments[side])
        # Whether they are to be had.
        _ = found.rule, found.worsenings()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BundleError(f"{file}: damaged: {error}") from None
    except (KeyError, ValueError, ArithmeticError, statistics.StatisticsError) as error:
        raise BundleError(
            f"{file}: damaged: a round lacks {error}" if isinstance(error, KeyError) else f"{file}: {error}"
        ) from None
    return found


def write(comparison: Comparison, folder: Path) -> None:
    """Replace the record in a folder, at once."""
    new = folder / f"{FILE}.new"
    new.write_bytes(msgspec.json.encode(comparison) + b"\n")
    os.replace(new, folder / FILE)


def seal(folder: Path, file: Path) -> int:
    """Seal the comparisons in the folders of a folder into one new Parquet file; returns their number.

    A row is a pair of values: of which comparison, round and metric. A comparison's first row has all else of it (`record`).

    Raises
    ------
    BundleError
        when there is none, or one is damaged, or the file exists.
    """
    found = {place.parent.name: read(place) for place in sorted(folder.glob(f"*/{FILE}"))}
    if not found or file.exists():
        raise BundleError(f"{file}: exists; name a new file" if found else f"{folder}: holds no comparisons")
    rows: list[dict[str, Any]] = []
    for name, one in found.items():
        first = len(rows)
        units = {metric.name: metric.unit for metric in one.metrics}
        rows += [
            {"comparison": name, "planted": one.planted, "round": number, "seed": each.seed, "first": each.first}
            | {"seconds": each.seconds, "metric": metric, "unit": units.get(metric), "base": base, "head": head}
            for number, each in enumerate(one.rounds)
            for metric, pairs in each.pairs.items()
            for base, head in pairs
        ]
        rows[first]["record"] = msgspec.json.encode(msgspec.structs.replace(one, rounds=())).decode()
    new = file.with_name(file.name + ".new")
    pd.DataFrame(rows).to_parquet(new, compression="zstd", index=False)
    if unseal(new) != found:
        new.unlink()
        raise BundleError(f"{file}: what was written differs from what was read; nothing is sealed")
    new.rename(file)
    return len(found)


def unseal(file: Path) -> dict[str, Comparison]:
    """Comparisons of a sealed file, by the name of the folder that each was in."""
    found: dict[str, Comparison] = {}
    for name, own in pd.read_parquet(file).groupby("comparison", sort=True):
        rounds = []
        for _, each in own.groupby("round", sort=True):
            pairs: dict[str, list[tuple[Number, Number]]] = {}
            for metric, base, head in zip(each["metric"], each["base"], each["head"], strict=True):
                pairs.setdefault(metric, []).append((base, head))
            start = each.iloc[0]
            rounds.append(Round(int(start["seed"]), start["first"], pairs, float(start["seconds"])))
        record = msgspec.json.decode(own["record"].dropna().iloc[0], type=Comparison)
        found[str(name)] = msgspec.structs.replace(record, rounds=tuple(rounds))
    return found


class _Schema(Struct):
    schema: str
