"""Runs one command in turns from two checkouts until the rule has decided.

A *round* is a few *turns*. In each turn the command runs once on either side; which side goes first alternates from turn to
turn. Which side begins a round is drawn at random, and each begins one of every two rounds. A round counts once, by the median
of its turns' ratios.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gate.execution import CommandFailed, run
from gate.metrics import Source, Value
from suites.statistics.comparison import Comparison, Metric, Round, Side
from suites.statistics.gate import Rule
from suites.statistics.rounds import until_decided

ROUND_S = 2.0
"""Seconds that a round of short runs is filled up to."""
MOST_TURNS = 10
"""Of a round: more would hardly make its median steadier."""
SEED = 20_251_124
"""Of the order in which the sides begin rounds."""


@dataclass(frozen=True)
class Measurement:
    """What is run, and how its values are read."""

    command: Sequence[str]
    source: Source
    timeout_s: float
    """Deadline of one run."""
    warm_ups: int = 1
    """Runs of either side that do not count: they fill caches and compile."""
    turns: int | None = None
    """Of a round; None: as many as fit into `ROUND_S`, by the time that the last warm-up took."""


class Session:
    """A comparison that is going on.

    Parameters
    ----------
    folders
        by side, where the command runs.
    environments
        by side, what the record says of machine and revision.
    out
        gets the record, and a folder `logs` with what each run printed.
    say
        is told how it goes, line by line.
    """

    def __init__(
        self,
        folders: Mapping[Side, Path],
        environments: Mapping[Side, dict[str, Any]],
        measurement: Measurement,
        rule: Rule,
        out: Path,
        *,
        planted: str | None = None,
        say: Callable[[str], object] = print,
    ) -> None:
        self._folders, self._environments, self._measurement = folders, dict(environments), measurement
        self._rule, self._out, self._planted, self._say = rule, out, planted, say
        self._logs = out / "logs"
        self._turns = measurement.turns or 1
        self._first = _beginners(rule.looks[-1])

    def run(self) -> Comparison:
        """Measure rounds until the rule has decided.

        Raises
        ------
        CommandFailed
            when the command fails on one side, or gives nothing that can be compared. No process is left running then, nor
            after Ctrl-C.
        """
        self._logs.mkdir(exist_ok=True)
        self._warm_up()
        return until_decided(self._round, self._rule, self._out, self._say)

    def _warm_up(self) -> None:
        took: dict[Side, float] = {}
        for number in range(self._measurement.warm_ups):
            for side in self._folders:
                _, took[side] = self._once(side, f"warm-up {number + 1}", f"warm-up-{number + 1}-{side}")
        if took and self._measurement.turns is None:
            self._turns = max(1, min(MOST_TURNS, int(ROUND_S / sum(took.values()))))
        self._say(f"each round runs the command {self._turns} time{'s' * (self._turns != 1)} on either side")

    def _round(self, number: int, known: Comparison | None) -> Comparison:
        """One more round."""
        begun = time.monotonic()
        first = self._first[number]
        order: list[Side] = [first, "head" if first == "base" else "base"]
        pairs: dict[str, list[tuple[float, float]]] = {}
        for turn in range(self._turns):
            values: dict[Side, dict[str, Value]] = {}
            for side in order if turn % 2 == 0 else reversed(order):
                name = f"round {number + 1}, run {turn + 1}"
                values[side], _ = self._once(side, name, f"round-{number + 1:03d}-{turn + 1:02d}-{side}")
            if known is None:
                known = self._begin(values)
            for metric in known.metrics:
                pairs.setdefault(metric.name, []).append((self._of("base", metric, values), self._of("head", metric, values)))
        assert known is not None
        one = Round(number, first, pairs, round(time.monotonic() - begun, 3))
        return replace(known, rounds=(*known.rounds, one))

    def _once(self, side: Side, name: str, log: str) -> tuple[dict[str, Value], float]:
        """Values of one run, and the seconds that it took."""
        folder, told = self._folders[side], f"the {side}, {name}"
        self._measurement.source.before(folder)
        done = run(told, self._measurement.command, folder, self._logs / log, self._measurement.timeout_s)
        return self._measurement.source.read(told, done, folder), done.seconds

    def _begin(self, values: Mapping[Side, Mapping[str, Value]]) -> Comparison:
        """What there is to compare.

        Raises
        ------
        CommandFailed
            where nothing is left.
        """
        base, head = values["base"], values["head"]
        metrics, left_out = [], {}
        for name in dict.fromkeys([*head, *base]):
            if name not in base or name not in head:
                left_out[name] = f"only the {'head' if name in head else 'base'} reports it"
            elif (base[name].unit, base[name].better) != (head[name].unit, head[name].better):
                left_out[name] = "unit or direction is not the same on both sides"
            else:
                metrics.append(Metric(name, name, head[name].unit, head[name].better, {}))
        for name, reason in left_out.items():
            self._say(f"not compared: {name}: {reason}")
        if not metrics:
            raise CommandFailed("the two sides have no metric in common")
        return Comparison(
            environments=self._environments,
            metrics=tuple(metrics),
            left_out=left_out,
            planted=self._planted,
            size=self._rule.size,
            error=self._rule.error,
            looks=self._rule.looks,
        )

    def _of(self, side: Side, metric: Metric, values: Mapping[Side, Mapping[str, Value]]) -> float:
        """The value of a metric in this turn.

        Raises
        ------
        CommandFailed
            where it is missing now, or was printed with another unit or direction.
        """
        found = values[side].get(metric.name)
        if found is None:
            raise CommandFailed(f"the {side}: reported {metric.name!r} in its first run, but not in a later one")
        if (found.unit, found.better) != (metric.unit, metric.better):
            raise CommandFailed(f"the {side}: changed unit or direction of {metric.name!r} from one run to another")
        return found.value


def _beginners(rounds: int) -> list[Side]:
    """Which side begins each round: at random, and each begins one of every two rounds."""
    draw = random.Random(SEED)
    order: list[Side] = []
    while len(order) < rounds:
        order += draw.sample(("base", "head"), 2)
    return order[:rounds]
