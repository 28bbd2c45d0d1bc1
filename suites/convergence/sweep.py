"""What the convergence suite runs in each profile: constants only."""

from msgspec import Struct


class Profile(Struct, frozen=True, kw_only=True):
    """How much of the suite is run."""

    workloads: tuple[str, ...]
    systems: tuple[str, ...]
    on_policy: tuple[str, ...] = ()
    """Further ones, of workloads that are trained on policy."""
    blocks: int
    twice: str
    """The system that runs twice in each block: A against A shows the noise floor."""


NAME = "convergence"
ABOUT = "time, steps and core-seconds to a return threshold"

SYSTEMS = ("sync", "tianji", "xingtian", "rllib", "sb3")
ON_POLICY = ("tianji-relaxed",)

PROFILES = {
    # Quick to run through; DQN on CartPole seldom gets to its threshold in 12,000 steps.
    "smoke": Profile(
        workloads=("cartpole-ppo-zoo", "cartpole-dqn-zoo"), systems=SYSTEMS, on_policy=ON_POLICY, blocks=2, twice="sync"
    ),
    "standard": Profile(
        workloads=("cartpole-ppo-zoo", "cartpole-dqn-long"), systems=SYSTEMS, on_policy=ON_POLICY, blocks=5, twice="sync"
    ),
    "paper": Profile(
        workloads=("cartpole-ppo-zoo", "cartpole-dqn-long", "lunarlander-ppo", "lunarlander-dqn"),
        systems=SYSTEMS,
        on_policy=ON_POLICY,
        blocks=10,
        twice="sync",
    ),
}
