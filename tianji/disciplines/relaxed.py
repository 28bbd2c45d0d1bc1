"""Relaxed: no role waits for a slower one, and staleness is bounded by measured speeds.

Actors sample while the learner trains, with the latest weights, as long as they have credit. The learner takes the chunks that
arrive first. Credit follows measured speeds (`tianji.disciplines.balance`). A chunk whose policy is behind by more rounds than
the bound is dropped or corrected for. The rule is this project's own, because TianJi's paper states it in words only.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from programs.cli import ConfigError
from tianji.disciplines.balance import Mode
from tianji.disciplines.discipline import Discipline
from tianji.disciplines.laws import Law, age_within_the_bound, each_chunk_once
from tianji.disciplines.staleness import StalenessLedger
from tianji.settings import Count, Settings

MOST_ROUNDS = 16
"""Largest bound on staleness, in rounds, when measured speeds set the bound."""


class Relaxed(Discipline):
    """Event-driven training with bounded staleness."""

    name = "relaxed"
    waits: ClassVar = {
        "an actor": "credit, which the learner withholds while it is behind",
        "the learner": "the chunks of a round, whoever makes them",
        "groups": "nobody",
    }
    laws: ClassVar[tuple[Law, ...]] = (age_within_the_bound, each_chunk_once)
    mode: ClassVar[Mode] = "two-sided"

    class Options(Settings):
        """Options of `relaxed` and `one-sided`: the bound on staleness."""

        lag_rounds: Count | Literal["auto", "none"] = "auto"
        """Bound on staleness: rounds of updates by which a chunk's policy may be behind the learner's. `auto` (default): the
        bound follows measured speeds, up to 16 rounds, and with a replay there is none. `none`: no bound."""
        beyond_bound: Literal["evict", "correct"] = "evict"
        """Treatment of a chunk beyond the bound. `evict` (default): it is dropped. `correct`: it is trained on with truncated
        importance weights. Both are counted."""

    options: Options

    def check(self) -> None:
        if self.options.beyond_bound == "correct" and not self.facts.corrects:
            raise ConfigError("discipline.beyond_bound 'correct' is for relaxed ppo and impala: nothing else corrects")
        super().check()

    @property
    def measured(self) -> bool:
        """Whether the bound in force follows from measured speeds."""
        return self.options.lag_rounds == "auto" and not self.facts.replays

    @property
    def bound(self) -> int | None:
        if isinstance(self.options.lag_rounds, int):
            return self.options.lag_rounds
        return MOST_ROUNDS if self.measured else None

    def staleness(self) -> StalenessLedger:
        correct = self.options.beyond_bound == "correct"
        return StalenessLedger(self.bound, measured=self.measured, least=self.facts.least_bound, correct=correct)


class OneSided(Relaxed):
    """Relaxed without backpressure, for the ablation: only the learner waits, and actors wait for free memory only."""

    name = "one-sided"
    waits: ClassVar = Relaxed.waits | {"an actor": "a free slot"}
    mode: ClassVar[Mode] = "one-sided"
