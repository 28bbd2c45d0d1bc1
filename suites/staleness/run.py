"""Runs the staleness suite: the same cells as the convergence suite has, of systems that differ in their balance."""

from pathlib import Path

from suites.convergence.run import Convergence
from suites.session.plan import Plan
from suites.staleness import sweep


class Staleness(Convergence):
    """What balance does."""

    name, about, profiles = sweep.NAME, sweep.ABOUT, sweep.PROFILES

    def before(self, plan: Plan, out: Path) -> None:
        """Its systems compute with one code: there is nothing to certify."""
