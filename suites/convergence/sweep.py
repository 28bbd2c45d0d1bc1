"""What the convergence suite runs in each profile: constants only."""

from suites.plan import Profile

NAME = "convergence"
ABOUT = "time, steps and core-seconds to a return threshold"

SYSTEMS = ("sync", "tianji", "xingtian", "rllib", "sb3")
WORKLOADS = ("cartpole-ppo-zoo", "cartpole-dqn-zoo")

PROFILES = {
    "smoke": Profile(workloads=WORKLOADS, systems=SYSTEMS, blocks=2, twice="sync"),
    "standard": Profile(workloads=WORKLOADS, systems=SYSTEMS, blocks=5, twice="sync"),
    "paper": Profile(workloads=WORKLOADS, systems=SYSTEMS, blocks=10, twice="sync"),
}
