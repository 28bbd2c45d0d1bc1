"""Profiles of the staleness suite, as constants."""

from suites.convergence.sweep import Profile

NAME = "staleness"
ABOUT = "the balance switched off, one-sided and two-sided: lag, age and steps to a return threshold"

SYSTEMS = ("tianji", "tianji-relaxed", "tianji-one-sided", "tianji-unbalanced", "tianji-as-published")
"""Where an algorithm is off-policy as it is, `tianji` is the two-sided one and there is no other relaxed one."""
WORKLOADS = ("cartpole-ppo-zoo", "cartpole-impala", "cartpole-dqn-zoo", "cartpole-ppo-waiting")

PROFILES = {
    "smoke": Profile(workloads=WORKLOADS[:1], systems=SYSTEMS[:4], blocks=1, twice="tianji"),
    "standard": Profile(workloads=WORKLOADS, systems=SYSTEMS, blocks=10, twice="tianji"),
    "paper": Profile(workloads=WORKLOADS, systems=SYSTEMS, blocks=20, twice="tianji"),
}
