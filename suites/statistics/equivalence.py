"""Is a mean the same as a published one, within a margin that was fixed before? Two one-sided t-tests.

D. J. Schuirmann, "A comparison of the two one-sided tests procedure ...", J. Pharmacokinetics and Biopharmaceutics 15 (1987):
two means are equivalent at 5 % if the 90 % interval of their difference lies within the margin. Variances may differ (Welch).
Pure; imports no other package of the project.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from suites.statistics.gate import FEWEST
from suites.statistics.intervals import Estimate

Kind = Literal["equivalent", "different", "inconclusive", "too few seeds"]


@dataclass(frozen=True)
class Published:
    """A mean over seeds, as others published it."""

    mean: float
    sd: float
    """Standard deviation over seeds, divided by n - 1."""
    n: int


def difference(values: Sequence[float], other: Published) -> Estimate:
    """Mean of the values less the published one, with a 90 % interval; none below `FEWEST` values on either side."""
    data = np.asarray(values, np.float64)
    point, n = float(data.mean()) - other.mean, len(data)
    if min(n, other.n) < FEWEST:
        return Estimate(point, None, None, n)
    ours, theirs = float(data.var(ddof=1)) / n, other.sd**2 / other.n
    if ours + theirs == 0:
        return Estimate(point, point, point, n)
    freedom = (ours + theirs) ** 2 / (ours**2 / (n - 1) + theirs**2 / (other.n - 1))
    width = math.sqrt(ours + theirs) * float(stdtrit(freedom, 0.95))
    return Estimate(point, point - width, point + width, n)


def verdict(found: Estimate, margin: float) -> Kind:
    """What a difference comes to: *equivalent* if its interval lies within +-margin, *different* if it lies outside."""
    if found.low is None or found.high is None:
        return "too few seeds"
    if -margin <= found.low and found.high <= margin:
        return "equivalent"
    return "different" if found.low > margin or found.high < -margin else "inconclusive"
