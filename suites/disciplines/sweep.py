"""Profiles of the disciplines suite, as constants."""

from suites.convergence import sweep as convergence

NAME = "disciplines"
ABOUT = "who waits for whom: throughput under each discipline, as a share of what its rule allows, and the lag of samples"

SYSTEMS = (
    "tianji",
    "tianji-strict",
    "tianji-reactor",
    "tianji-stream",
    "tianji-exactly-one-round",
    "tianji-quota-free",
    "tianji-admitted-in-order-1",
    "tianji-admitted-0",
    "tianji-admitted-1",
    "tianji-admitted-2",
    "tianji-admitted-4",
    "tianji-admitted-8",
    "tianji-admitted-interruptible-1",
    "tianji-relaxed",
    "tianji-one-sided",
    "tianji-free",
    "tianji-unbalanced",
    "tianji-periodic",
)
"""On each workload those run that are for its algorithm: PPO makes `tianji` strict, and `stream` is for IMPALA."""
WORKLOADS = ("cartpole-ppo-equal", "cartpole-ppo-unequal", "cartpole-ppo-straggler", "cartpole-impala-straggler")
"""Simulators and learners that wait, so that waiting rules decide and not the machine."""


LEARNING = ("cartpole-ppo-tail", "acrobot-ppo-tail", "cartpole-dqn-tail")
"""Slow simulators with a tail, on the way to a return."""


class Profile(convergence.Profile, frozen=True, kw_only=True):
    """Extent of a run of the suite."""

    workloads: tuple[str, ...] = WORKLOADS
    systems: tuple[str, ...] = SYSTEMS
    twice: str = "tianji"
    seconds: float | None
    """Length of a run. Throughput is read from its steady part; nobody waits for a return. None: runs have their workload's
    budgets, and their snapshots are played."""


PROFILES = {
    "smoke": Profile(
        workloads=WORKLOADS[2:3], systems=("tianji", "tianji-quota-free", "tianji-relaxed"), blocks=1, seconds=6.0
    ),
    "standard": Profile(blocks=5, seconds=12.0),
    "learning": Profile(workloads=LEARNING, blocks=5, seconds=None),
    "paper": Profile(blocks=10, seconds=30.0),
}
