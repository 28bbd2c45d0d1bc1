"""Measures two revisions in turns on the same machine until the gate can decide.

A *round* starts both revisions in fresh processes, so that memory layout is random. Within a round they take many short turns
(A B, B A, ...) on the same core, so that other load affects both. A round counts as one pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from suites.components import micro
from suites.components.revision import Revision, RevisionFailed, Worker
from suites.statistics import gate
from suites.statistics.comparison import Comparison, Metric, Round, Side
from suites.statistics.rounds import until_decided

SECONDS, TURNS = 0.03, 10
"""Seconds of one turn, and number of turns of each part and revision in a round."""
LIMIT_S = 300.0
"""Seconds in which a request must be answered. Returns of DQN take longest."""


class Session:
    """A comparison that is going on.

    Parameters
    ----------
    base, head
        the revision that is known, and the one that is in question.
    folder
        gets the record, after each round.
    rule
        by which is decided.
    parts
        these alone; None: all that both have.
    with_micro
        whether the micro benchmarks are run too.
    planted
        what was done to the head on purpose.
    say
        is told how it goes, line by line.
    """

    def __init__(
        self,
        base: Revision,
        head: Revision,
        folder: Path,
        rule: gate.Rule,
        *,
        parts: Sequence[str] | None = None,
        with_micro: bool = False,
        planted: str | None = None,
        say: Callable[[str], object] = print,
    ) -> None:
        self.sides: dict[Side, Revision] = {"base": base, "head": head}
        self._folder, self._rule, self._parts, self._say = folder, rule, parts, say
        self._micro, self._planted = with_micro, planted
        self._timed: dict[str, bool] = {}

    def run(self) -> Comparison:
        """Measure rounds until the gate has decided.

        Raises
        ------
        RevisionFailed
            when one of the two cannot be measured. No process is left running then, nor after Ctrl-C.
        """
        return until_decided(self._round, self._rule, self._folder, self._say)

    def _round(self, number: int, known: Comparison | None) -> Comparison:
        """One more round."""
        begun = time.monotonic()
        order: list[Side] = ["base", "head"] if number % 2 == 0 else ["head", "base"]
        with ExitStack() as stack:
            workers = {side: stack.enter_context(Worker(self.sides[side])) for side in order}
            hellos = {side: worker.hello() for side, worker in workers.items()}
            if known is None:
                known = self._begin(hellos)
            names = [metric.name for metric in known.metrics if metric.name in self._timed]
            for name in names:
                both(workers, {"prepare": name, "seed": number})
            pairs = in_turns(workers, [name for name in names if self._timed[name]], TURNS, SECONDS)
            for name in (name for name in names if not self._timed[name]):
                # How long it takes is not asked: both at once.
                told = both(workers, {"measure": name, "seconds": SECONDS})
                pairs[name] = [(told["base"]["value"], told["head"]["value"])]
        if self._micro:
            medians = {side: micro.medians(self.sides[side]) for side in order}
            if number == 0:
                known = self._with_micro(known, medians)
            for name in (metric.name for metric in known.metrics if metric.name.startswith(micro.PREFIX)):
                pairs[name] = [(medians["base"][name], medians["head"][name])]
        one = Round(number, order[0], pairs, round(time.monotonic() - begun, 3))
        return replace(known, rounds=(*known.rounds, one))

    def _begin(self, hellos: dict[Side, dict[str, Any]]) -> Comparison:
        """Start a comparison of the parts that both revisions have.

        Raises
        ------
        RevisionFailed
            for a part that is asked for and that neither has, or where nothing is left.
        """
        known = {side: {part["name"]: part for part in hello["parts"]} for side, hello in hellos.items()}
        every = dict.fromkeys([*known["head"], *known["base"]])
        for name in self._parts or ():
            if name not in every:
                raise RevisionFailed(f"unknown part {name!r}; known: {', '.join(every)}")
        metrics, left_out = [], {}
        for name in every if self._parts is None else self._parts:
            missing = [self.sides[side].name for side in known if name not in known[side]]
            if missing:
                left_out[name] = f"{missing[0]} does not have it"
            elif any(known["base"][name][key] != known["head"][name][key] for key in ("configuration", "unit", "better")):
                left_out[name] = "its work is not the same in both: a new series begins"
            else:
                part = known["head"][name]
                self._timed[name] = part["timed"]
                metrics.append(Metric(name, part["about"], part["unit"], part["better"], part["configuration"]))
        for name, reason in left_out.items():
            self._say(f"left out: {name}: {reason}")
        if not metrics:
            raise RevisionFailed("nothing is left to compare")
        return Comparison(
            environments={side: hello["environment"] for side, hello in hellos.items()},
            metrics=tuple(metrics),
            left_out=left_out,
            planted=self._planted,
            size=self._rule.size,
            error=self._rule.error,
            looks=self._rule.looks,
        )

    def _with_micro(self, known: Comparison, medians: dict[Side, dict[str, float]]) -> Comparison:
        """Micro benchmarks that both have."""
        both = [name for name in medians["head"] if name in medians["base"]]
        only = dict.fromkeys(sorted(set(medians["head"]) ^ set(medians["base"])), "only one of the two has it")
        metrics = tuple(Metric(name, "median of a micro benchmark", "s", "lower", {}) for name in both)
        return replace(known, metrics=(*known.metrics, *metrics), left_out=known.left_out | only)


def both(workers: Mapping[Side, Worker], question: dict[str, Any]) -> dict[Side, dict[str, Any]]:
    """Ask both the same at once."""
    for worker in workers.values():
        worker.ask(question)
    return {side: worker.answer(LIMIT_S) for side, worker in workers.items()}


def in_turns(
    workers: Mapping[Side, Worker], parts: Sequence[str], turns: int, seconds: float
) -> dict[str, list[tuple[float, float]]]:
    """Measure parts, a turn of each after the other; who goes first changes from turn to turn. The base's value, the head's."""
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in parts}
    for turn in range(turns):
        for name in parts:
            values = {}
            for side in workers if turn % 2 == 0 else reversed(list(workers)):
                workers[side].ask({"measure": name, "seconds": seconds})
                values[side] = workers[side].answer(LIMIT_S)["value"]
            pairs[name].append((values["base"], values["head"]))
    return pairs
