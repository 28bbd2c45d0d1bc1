"""Spaces of options for the open division: what may be chosen for a system on a workload, and what is tried first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from msgspec import Struct

from baselines.workload import Workload

Scalar = bool | int | float | str

MULTIPLES = (1, 2, 4)
"""Of the workload's environments and rollout length."""
RATES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the workload's learning rate."""
ROUNDS = 16
"""Fewest update rounds in the workload's budget, of which a trial gets a part."""


class Space(Struct, frozen=True):
    """Values of each option, and the settings that are tried before a sampler chooses."""

    choices: dict[str, tuple[Scalar, ...]]
    first: tuple[dict[str, Scalar], ...]
    """The settings of the closed division; then those that the system's makers advise; then others that every search tries."""

    @property
    def size(self) -> int:
        """Number of different settings."""
        return math.prod(map(len, self.choices.values()))

    def settings(self) -> Iterator[dict[str, Scalar]]:
        """Every setting, in a fixed order."""
        return (dict(zip(self.choices, values, strict=True)) for values in product(*self.choices.values()))

    def extended(self, choices: Mapping[str, tuple[Scalar, ...]], *first: Mapping[str, Scalar]) -> Space:
        """The space with a system's own options.

        Parameters
        ----------
        first
            values of these options that are tried first, those of the closed division before all. Other options have their
            closed values meanwhile.
        """
        closed = self.first[0]
        tried = [closed | dict(one) for one in first]
        return Space({**self.choices, **choices}, tuple(one for place, one in enumerate(tried) if one not in tried[:place]))

    def outside(self, options: Mapping[str, Any]) -> str | None:
        """Why a setting is not of this space, in words; None if it is."""
        if odd := sorted(options.keys() ^ self.choices.keys()):
            return f"its options are {', '.join(self.choices)}: {odd[0]} is {'unknown' if odd[0] in options else 'missing'}"
        for name, value in options.items():
            if value not in self.choices[name]:
                return f"{name} is {value!r}, which is none of {', '.join(map(str, self.choices[name]))}"
        return None


def equal_parts(w: Workload, most: int) -> tuple[int, ...]:
    """Numbers of processes, up to `most`, that can have equally many of the workload's environments."""
    return tuple(n for n in range(1, most + 1) if w.environments % n == 0)


def of_workload(w: Workload) -> Space:
    """The options that every system has, because they are the workload's: environments, rollout length and learning rate.

    A rollout of an algorithm with a replay is bound to its updates, and stays as it is.
    """
    rate = f"{w.algo}.learning_rate"
    settings: Any = w.hyperparameters
    choices: dict[str, tuple[Scalar, ...]] = {rate: tuple(settings.learning_rate * factor for factor in RATES)}
    closed: dict[str, Scalar] = {rate: settings.learning_rate, "environments": w.environments}
    if w.hyperparameters.replays:
        fits = [m for m in MULTIPLES if w.round_steps % (w.environments * m) == 0]
    else:
        # Both grow together at most.
        fits = [m for m in MULTIPLES if m * m * w.round_steps * ROUNDS <= w.budget_steps]
        length = f"{w.algo}.rollout_steps"
        choices[length] = tuple(settings.rollout_steps * m for m in fits or MULTIPLES[:1])
        closed[length] = settings.rollout_steps
    choices["environments"] = tuple(w.environments * m for m in fits or MULTIPLES[:1])
    return Space(choices, (closed,))
