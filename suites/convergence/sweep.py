"""What the convergence suite runs in each profile: constants only."""

from suites.plan import Profile

NAME = "convergence"
ABOUT = "time, steps and core-seconds to a return threshold"

PROFILES = {
    "smoke": Profile(
        workloads=("cartpole-ppo-zoo", "cartpole-dqn-zoo"), systems=("sync", "tianji", "rllib", "sb3"), blocks=2, twice="sync"
    ),
    "standard": Profile(
        workloads=("cartpole-ppo-zoo", "cartpole-dqn-zoo"), systems=("sync", "tianji", "rllib", "sb3"), blocks=5, twice="sync"
    ),
    "paper": Profile(
        workloads=("cartpole-ppo-zoo", "cartpole-dqn-zoo"), systems=("sync", "tianji", "rllib", "sb3"), blocks=10, twice="sync"
    ),
}
