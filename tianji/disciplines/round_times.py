"""Closed forms of the time of a round and of the age of its samples, for disciplines that wait in different ways.

With a fragment of each of n actors in a round, of mean time E[t_i], and L the learner's time for a round, to first order

===================  ==============================  ==================================================
rule                 time of a round                 mean age of its samples, in rounds
===================  ==============================  ==================================================
barrier              E[max t_i] + L                  0
any samples          T + R + L                       0
exactly one round    max(E[max t_i], L)              1
in order, eta >= 1   max(max E[t_i], L)              eta
free                 max(T, L)                       1 + min(1, L / T)
===================  ==============================  ==================================================

T = n / sum 1 / E[t_i] is the time in which all actors together make a round's samples. R is what the longest step under way
adds (`longest_rest`). The first row is strict and reactor. The second is VER's rule (Wijmans, Essa and Batra, NeurIPS 2022),
the third is HTS-RL's (Liu, Yeh and Schwing, 2020, arXiv 2012.09849), and the fourth is AReaL's with rounds in order (Fu et al.,
2025, arXiv 2505.24298).

The last age is of a learner that bounds what waits, as under `relaxed`. With n fragments in flight and n in a round, a fragment
takes a round's time on average (Little's law), and it begins with weights that miss the round under way. If all fragments take
equally long, samples are up to a round younger than that.

No round is shorter than its computing on the cores that there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import mul

from msgspec import Struct

POINTS = 400
"""Points at which an integral over durations is evaluated."""


class Times(Struct, frozen=True, kw_only=True):
    """Durations of one group, in seconds."""

    fragments_s: tuple[float, ...]
    """E[t_i]: mean time of a fragment of each actor."""
    slowest_s: float
    """E[max t_i]: expected longest fragment of one round."""
    round_s: float
    """L: the learner's time for a round."""
    rest_s: float = 0.0
    """R: by how much the longest rest of a step under way exceeds the mean one."""
    computing_s: float = 0.0
    """Computing of a round, actors and learner together, over the number of cores."""

    @property
    def mean_s(self) -> float:
        """Mean fragment over all actors."""
        return math.fsum(self.fragments_s) / len(self.fragments_s)

    @property
    def together_s(self) -> float:
        """T: time in which all actors make a round's samples if none of them waits."""
        return len(self.fragments_s) / math.fsum(1 / one for one in self.fragments_s)

    @property
    def rho(self) -> float:
        """Mean fragment over the learner's round."""
        return self.mean_s / self.round_s

    @property
    def spread(self) -> float:
        """M: expected longest fragment over the mean one."""
        return self.slowest_s / self.mean_s


def mean(counts: Mapping[int, int]) -> float:
    """Mean of a distribution of whole numbers, given as the count of each value."""
    return sum(value * count for value, count in counts.items()) / sum(counts.values())


def expected_max(distributions: Sequence[Mapping[int, int]]) -> float:
    """Expectation of the largest of independent whole numbers, one from each distribution of counts.

    It is the sum over m >= 0 of 1 - prod_i P(t_i <= m).
    """
    totals = [sum(counts.values()) for counts in distributions]
    values = sorted(set().union(*distributions))
    below = [0] * len(distributions)
    expected, earlier = 0.0, 0
    for value in values:
        # Between two values that occur, the probability does not change.
        expected += (value - earlier) * (1 - math.prod(b / total for b, total in zip(below, totals, strict=True)))
        below = [b + counts.get(value, 0) for b, counts in zip(below, distributions, strict=True)]
        earlier = value
    return expected


class Steps(Struct, frozen=True, kw_only=True):
    """Durations of one actor's steps, in seconds. Those of fast ones are not known, and a rest of one counts as 0."""

    mean_s: float
    slow: Mapping[float, float]
    """Durations of slow steps, each with its share of all steps."""

    def rests_longer(self, seconds: float) -> float:
        """Probability that the step under way goes on for longer than this.

        For a step S and a rest r it is E[max(0, S - r)] / E[S]. A long step is under way more often than a short one (Cox,
        Renewal Theory, 1962).
        """
        left = math.fsum(share * (took - seconds) for took, share in self.slow.items() if took > seconds)
        return min(1.0, left / self.mean_s)


def longest_rest(actors: Sequence[Steps]) -> float:
    """By how much the longest rest of a step under way exceeds the mean one, in seconds.

    Let a round close at W, and R_i be the rest of actor i's step. By its end the actor makes r_i (W + E[R_i]) samples (Wald's
    identity). All wait until W + E[max R_i]. So a round of n fragments takes longer than T, by E[max R_i] less the mean of
    E[R_i] weighted by r_i. Both are integrals over the probability that a rest is longer.

    Parameters
    ----------
    actors
        the steps of each actor.
    """
    top = max((took for one in actors for took in one.slow), default=0.0)
    rates = [1 / one.mean_s for one in actors]
    exceeds = []
    for place in range(POINTS):
        longer = [one.rests_longer(top * place / POINTS) for one in actors]
        some = 1 - math.prod(1 - one for one in longer)
        exceeds.append(some - math.fsum(map(mul, rates, longer)) / math.fsum(rates))
    # The rule of trapezoids; at the top nothing is left.
    return top / POINTS * (math.fsum(exceeds) - exceeds[0] / 2)


def barrier_s(t: Times) -> float:
    """Time of a round if all wait for the slowest actor, and then for the learner."""
    return max(t.slowest_s + t.round_s, t.computing_s)


def any_samples_s(t: Times) -> float:
    """Time of a round of any samples, whoever makes them, if all then end their steps and wait for the learner."""
    return max(t.together_s + t.rest_s + t.round_s, t.computing_s)


def exactly_one_round_s(t: Times) -> float:
    """Time of a round if the learner trains while all actors sample the next one."""
    return max(t.slowest_s, t.round_s, t.computing_s)


def free_s(t: Times) -> float:
    """Time of a round of any samples if nobody waits while there is work."""
    return max(t.together_s, t.round_s, t.computing_s)


def free_age(t: Times) -> float:
    """Mean age of samples in rounds if nobody waits and hardly anything queues."""
    return 1 + min(1.0, t.round_s / t.together_s)
