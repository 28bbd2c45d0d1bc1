"""Is this revision worse than that one? Pairs of measurements in, a verdict for each metric out.

A metric is *worse* if the change is large enough to matter (`Rule.size`) and is shown. The test is a paired, one-sided t-test
on logarithms of ratios. Its error holds for all metrics together (Holm, 1979) and for all looks together: each look has an
equal share of it (Bonferroni). A metric is *settled* if a change that matters is ruled out, because a bound of its interval
lies short of it. Rounds are added while a metric is neither, up to the last look. A metric that is still open then is
inconclusive.

Pure; imports no other package of the project.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from suites.statistics.families import holm

Better = Literal["higher", "lower"]
Kind = Literal["worse", "better", "equivalent", "not worse", "inconclusive"]
FEWEST = 3
"""Fewest rounds that are judged: fewer do not show how much they scatter."""


@dataclass(frozen=True)
class Rule:
    """When a metric is worse, and when measuring stops."""

    size: float = 0.05
    """A metric must be worse by this share at least: 0.05 is five parts in a hundred."""
    error: float = 0.05
    """The chance that anything is called worse where nothing is, over all metrics and looks."""
    looks: tuple[int, ...] = (4, 6, 9, 14, 20)
    """Numbers of rounds after which verdicts are given."""

    def __post_init__(self) -> None:
        if not 0 < self.size < 1:
            raise ValueError(f"size {self.size}: give a share between 0 and 1, such as 0.05")
        if not 0 < self.error < 0.5:
            raise ValueError(f"error {self.error}: give a chance between 0 and 0.5, such as 0.05")
        if not self.looks or list(self.looks) != sorted(set(self.looks)) or self.looks[0] < FEWEST:
            raise ValueError(f"looks {self.looks}: give rising numbers of rounds, the first {FEWEST} or more")


@dataclass(frozen=True)
class Judgement:
    """On one metric."""

    kind: Kind
    ratio: float
    """Head over base, geometric mean over rounds."""
    low: float
    high: float
    """Its 95 % interval (Student's t on logarithms)."""
    p: float
    """Of being no worse, for this metric alone."""
    n: int
    """Rounds."""


def worsening(base: float, head: float, better: Better) -> float:
    """Logarithm of how many times worse the head is; below 0 where it is better.

    Raises
    ------
    ValueError
        for a value that is not positive.
    """
    if not (base > 0 and head > 0):
        raise ValueError(f"ratios need positive values, not {base:g} and {head:g}")
    return math.log(base / head) if better == "higher" else math.log(head / base)


def judge(rounds: Mapping[str, Sequence[float]], better: Mapping[str, Better], rule: Rule) -> dict[str, Judgement]:
    """Verdicts after a look.

    Parameters
    ----------
    rounds
        by metric, the `worsening` of each round.
    better
        by metric, which direction is the good one.

    Raises
    ------
    ValueError
        where a metric has fewer than `FEWEST` rounds.
    """
    found = {name: _Test(name, values) for name, values in rounds.items()}
    limit = math.log1p(rule.size)
    # The family's error is shared out among the looks.
    adjusted = dict(zip(found, holm([test.p for test in found.values()]), strict=True))
    error = rule.error / len(rule.looks)
    return {name: test.verdict(limit, better[name], shown=adjusted[name] <= error) for name, test in found.items()}


def decide(
    rounds: Mapping[str, Sequence[float]], better: Mapping[str, Better], rule: Rule
) -> tuple[dict[str, Judgement], int, bool]:
    """Verdicts at the first look that settles all metrics or finds one worse; otherwise at the latest look.

    Returns
    -------
    the verdicts, the number of rounds that they are based on, and whether they are final: the last look has been reached, or
    nothing is open. No verdicts before the first look.
    """
    known = min((len(values) for values in rounds.values()), default=0)
    judgements: dict[str, Judgement] = {}
    looks = [look for look in rule.looks if look <= known]
    for look in looks:
        judgements = judge({name: values[:look] for name, values in rounds.items()}, better, rule)
        if final(judgements) or look == rule.looks[-1]:
            return judgements, look, True
    return judgements, max(looks, default=0), False


def final(verdicts: Mapping[str, Judgement]) -> bool:
    """Whether more rounds would change nothing: something is worse, or nothing is open."""
    kinds = {verdict.kind for verdict in verdicts.values()}
    return "worse" in kinds or "inconclusive" not in kinds


class _Test:
    """Student's t on the worsenings of one metric."""

    def __init__(self, name: str, values: Sequence[float]) -> None:
        self.values = np.asarray(values, np.float64)
        n = len(self.values)
        if n < FEWEST:
            raise ValueError(f"{name}: {n} rounds cannot be judged, {FEWEST} are needed")
        self.mean, self.freedom = float(self.values.mean()), n - 1
        self.error = float(self.values.std(ddof=1)) / math.sqrt(n)
        if self.error > 0:
            from scipy import special

            self.p = float(special.stdtr(self.freedom, -self.mean / self.error))
        else:
            # All rounds agree to the last bit, as returns of the lockstep world do where nothing has changed.
            self.p = 0.0 if self.mean > 0 else 1.0

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Of a two-sided interval."""
        from scipy import special

        width = self.error * float(special.stdtrit(self.freedom, 0.5 + confidence / 2))
        return self.mean - width, self.mean + width

    def verdict(self, limit: float, better: Better, *, shown: bool) -> Judgement:
        low, high = self.bounds(0.90)  # Each of its bounds fails in one case of twenty.
        kind: Kind = "inconclusive"
        if shown and self.mean >= limit:
            kind = "worse"
        elif self.bounds(0.95)[1] < 0 and self.mean <= -limit:
            # As the interval that is shown says.
            kind = "better"
        elif high < limit:
            kind = "equivalent" if low > -limit else "not worse"
        sign = -1 if better == "higher" else 1
        ends = sorted(math.exp(sign * end) for end in self.bounds(0.95))
        return Judgement(kind, math.exp(sign * self.mean), ends[0], ends[1], self.p, len(self.values))
