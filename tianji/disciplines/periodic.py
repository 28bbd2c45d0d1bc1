"""Periodic: weights go out by a schedule, every k updates or after so many seconds of work. Apart from that nobody waits.

The schedule by updates is TBA's (Bartoldson et al., 2025, arXiv 2503.18929), whose searchers get weights every k updates of
their trainer. The schedule by time is DistRL's (Wang et al., 2024, arXiv 2410.14803), which copies weights every few seconds.
Between two publications the learner trains on, and all that actors begin is of the same policy, so the age of samples grows up
to the next one. TBA's barrier at a publication is not part of this rule, nor is a bound on age.

A discipline sees no clock. Seconds are those that the learner worked; time in which it waited for samples does not count.
With a replay it does not wait once training has begun. `dqn.recent` gives TBA's preference for recent samples.
"""

from __future__ import annotations

from typing import ClassVar

from tianji.disciplines.laws import Law, each_chunk_once, weights_on_schedule
from tianji.disciplines.off import Off
from tianji.disciplines.queues import Waiting
from tianji.disciplines.sizes import Unpublished
from tianji.settings import NonNegativeFloat, Positive, Settings


class Periodic(Off):
    """A schedule for weights."""

    name = "periodic"
    laws: ClassVar[tuple[Law, ...]] = (weights_on_schedule, each_chunk_once)

    class Options(Settings):
        """When weights go out: at the first end of a round at which both are reached."""

        every_updates: Positive = 100
        """Least number of optimizer steps between two publications of the weights."""
        every_seconds: NonNegativeFloat = 0.0
        """Least time that the learner works between two publications of the weights, in seconds."""

    options: Options

    @property
    def period(self) -> Unpublished:
        return Unpublished(self.options.every_updates, round(1e9 * self.options.every_seconds))

    def may_publish(self, pending: Waiting, since: Unpublished) -> bool:
        return since.reaches(self.period)
