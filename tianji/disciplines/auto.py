"""Auto: a run begins under a barrier, measures fragments and rounds there, and goes on under the rule that promises most.

The time to a return is the time of a round times the number of rounds. The closed forms of `round_times` say the first. The
price says the second: each round of age multiplies the steps that are needed by exp(price).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from programs.cli import ConfigError
from tianji.disciplines import round_times
from tianji.disciplines.discipline import Discipline
from tianji.disciplines.exactly_one_round import ExactlyOneRound
from tianji.disciplines.quota_free import QuotaFree
from tianji.disciplines.reactor import Reactor
from tianji.disciplines.relaxed import Relaxed
from tianji.disciplines.round_times import Times
from tianji.disciplines.strict import Strict
from tianji.settings import Settings

ALIKE = 1.1
"""Predictions of round times are right to about a tenth (docs/disciplines.md). So rules within this factor of the best count as
equal, and the one with the youngest samples is taken."""


class Candidate(Struct, frozen=True):
    """A rule among which a run chooses."""

    rule: type[Discipline]
    round_s: Callable[[Times], float]
    """Time of a round under it."""
    age_rounds: Callable[[Times], float]
    """Mean age of its samples."""


def _never(t: Times) -> float:
    return 0.0


CANDIDATES = (
    Candidate(Strict, round_times.barrier_s, _never),
    Candidate(Reactor, round_times.barrier_s, _never),
    Candidate(QuotaFree, round_times.any_samples_s, _never),
    Candidate(ExactlyOneRound, round_times.exactly_one_round_s, lambda t: 1.0),
    Candidate(Relaxed, round_times.free_s, round_times.free_age),
)
"""All of them, youngest samples first. `Strict` stands before `Reactor`, which differs from it only with a replay."""


class Choice(Struct, frozen=True, kw_only=True):
    """The discipline under which a run goes on, and what was measured."""

    discipline: str
    why: str
    """One line."""
    rho: float | None = None
    """Mean fragment over the learner's round; None: nothing was measured."""
    spread: float | None = None
    """M: expected longest fragment over the mean one."""
    gain: float | None = None
    """Predicted time under the barrier over that under this discipline."""
    price: float | None = None


def choose(times: Times, price: float, candidates: Sequence[Candidate] = CANDIDATES) -> Choice:
    """Choose the rule with the least predicted time.

    Parameters
    ----------
    price
        logarithm of the factor in steps for each round of age.
    candidates
        those that fit, youngest samples first. The first is the barrier.
    """
    predicted = [one.round_s(times) * math.exp(price * one.age_rounds(times)) for one in candidates]
    best = min(predicted)
    taken = next(n for n, seconds in enumerate(predicted) if seconds <= ALIKE * best)
    name, gain = candidates[taken].rule.name, predicted[0] / predicted[taken]
    by = f"price {price:g} a round of age" if price else "price 0, so by throughput alone"
    why = (
        f"goes on under {name}: rho {times.rho:.2f}, M {times.spread:.2f}, predicted {gain:.2f}x as fast as "
        f"{candidates[0].rule.name} ({by})"
    )
    return Choice(discipline=name, why=why, rho=times.rho, spread=times.spread, gain=gain, price=price)


class Auto(Discipline):
    """Begins under a barrier and chooses. No role is given it: until the choice, `first` is the run's rule."""

    name = "auto"
    waits: ClassVar = {
        "an actor": "as `strict` at first, with a replay as `reactor`; then as the chosen discipline",
        "the learner": "likewise",
        "groups": "there is one group",
    }

    class Options(Settings):
        """What staleness costs."""

        price: Annotated[float, Meta(ge=0, le=100)] = 0.0
        """Price of staleness: the logarithm of the factor in environment steps for each round of age of the samples, as
        `tianji-report price` fits it. 0 (default): the choice is by throughput alone."""

    options: Options

    @property
    def first(self) -> Discipline:
        """The rule under which the run begins, and which it keeps in lockstep."""
        return (Reactor if self.facts.replays else Strict)(self.facts, Settings())

    @property
    def fitting(self) -> list[Candidate]:
        """Candidates that this run could be under."""
        return [one for one in CANDIDATES if self._fits(one.rule)]

    def _fits(self, rule: type[Discipline]) -> bool:
        try:
            self.under(rule).check()
        except ConfigError:
            return False
        return True

    def under(self, rule: type[Discipline]) -> Discipline:
        """Another discipline with this run's sizes."""
        return rule(self.facts, rule.Options())

    def check(self) -> None:
        self.first.check()

    @property
    def largest_round(self) -> int:
        return max(self.under(one.rule).largest_round for one in self.fitting)

    def choose(self, times: Times) -> Choice:
        """Choose by what was measured."""
        return choose(times, self.options.price, self.fitting)

    def unmeasured(self, why: str) -> Choice:
        """The choice where no times are known: what the run began with."""
        name = self.first.name
        return Choice(discipline=name, why=f"stays under {name}: {why}")
