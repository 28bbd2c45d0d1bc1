"""Profiles of the price suite, as constants."""

from suites.convergence import sweep as convergence

NAME = "price"
ABOUT = "what staleness costs: environment steps to a return, by lag and learning rate, with the lag exact"

WORKLOADS = ("cartpole-ppo-zoo", "acrobot-ppo")
SYSTEMS = tuple(f"tianji-admitted-in-order-{lag}" for lag in (0, 1, 2, 4))
"""Every sample is so many rounds old in lockstep, after as many rounds at the start."""
FACTORS = (0.25, 0.5, 1.0, 2.0)
"""Learning rates, over that of the workload."""


class Profile(convergence.Profile, frozen=True, kw_only=True):
    """Extent of a run of the suite."""

    workloads: tuple[str, ...] = WORKLOADS
    systems: tuple[str, ...] = SYSTEMS
    factors: tuple[float, ...] = FACTORS
    twice: str = SYSTEMS[0]
    """Unused: a run in lockstep repeats bit for bit, so there is no noise floor."""


PROFILES = {
    "smoke": Profile(workloads=WORKLOADS[:1], systems=SYSTEMS[::3], factors=(1.0,), blocks=1),
    "standard": Profile(blocks=30),
    "paper": Profile(blocks=60),
}
