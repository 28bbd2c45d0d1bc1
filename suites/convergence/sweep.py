"""Profiles of the convergence suite, as constants."""

from msgspec import Struct


class Profile(Struct, frozen=True, kw_only=True):
    """Extent of a run of the suite."""

    workloads: tuple[str, ...]
    systems: tuple[str, ...]
    on_policy: tuple[str, ...] = ()
    """Further ones, of workloads that are trained on policy."""
    first_block_only: tuple[str, ...] = ()
    """Systems that run in the first block only, unless the user names systems."""
    blocks: int
    twice: str
    """The system that runs twice in each block: A against A shows the noise floor."""
    stop_at_goal: bool = False
    """Whether a run ends once its training return has been reached, and judging once the evaluated one has been."""


NAME = "convergence"
ABOUT = "time, steps and core-seconds to a return threshold"

SYSTEMS = ("sync", "tianji", "xingtian", "rllib", "sb3")
ON_POLICY = ("tianji-relaxed",)

PROFILES = {
    # The main job's; docs/running.md counts its minutes. A run of RLlib takes about as long as all others of its block.
    "smoke": Profile(
        workloads=("cartpole-ppo-zoo", "cartpole-dqn-quick"),
        systems=SYSTEMS,
        on_policy=ON_POLICY,
        first_block_only=("rllib",),
        blocks=2,
        twice="sync",
        stop_at_goal=True,
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
