"""Runs the staleness suite: the cells of the convergence suite, for systems that differ in their balance."""

from pathlib import Path

from suites.convergence.run import Convergence
from suites.session.plan import Plan
from suites.staleness import sweep


class Staleness(Convergence):
    """The staleness suite."""

    name, about, profiles = sweep.NAME, sweep.ABOUT, sweep.PROFILES
    tunable = False

    def before(self, plan: Plan, out: Path) -> None:
        """Do nothing, because its systems share their code and need no certificate."""
