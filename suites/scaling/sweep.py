"""What the scaling suite runs in each profile: constants only."""

from msgspec import Struct

from suites.scaling.experiment import Experiment

NAME = "scaling"
ABOUT = "throughput and time to a return on one to eight nodes, emulated or real"

GIGABIT = 10**9
NODE_CORES = 0.2
"""Eight of them are 1.6 cores: on a machine of two there is room for what starts them and watches."""

EXPERIMENTS = {
    experiment.id: experiment
    for experiment in (
        Experiment(
            id="ppo-cpu-weak",
            title="PPO to a return, CPU-bound nodes, 8 environments a node",
            workload="cartpole-ppo-nodes",
            regime="cpu-bound",
            scaling="weak",
            cores=NODE_CORES,
            link_bits_per_s=GIGABIT,
            seconds=25,
            to_threshold=True,
        ),
        Experiment(
            id="dqn-cpu-weak",
            title="DQN, CPU-bound nodes, 8 environments a node",
            workload="cartpole-dqn-nodes",
            regime="cpu-bound",
            scaling="weak",
            cores=NODE_CORES,
            link_bits_per_s=GIGABIT,
            seconds=10,
        ),
        Experiment(
            id="dqn-latency-weak",
            title="DQN on slow simulators, 16 a node",
            workload="cartpole-dqn-latency",
            regime="latency-bound",
            scaling="weak",
            cores=NODE_CORES,
            link_bits_per_s=GIGABIT,
            seconds=10,
        ),
        Experiment(
            id="dqn-link-weak",
            title="DQN on pictures, links of 1 Gbit/s, 8 environments a node",
            workload="pixels-dqn-link",
            regime="link-bound",
            scaling="weak",
            link_bits_per_s=GIGABIT,
            seconds=10,
        ),
        Experiment(
            id="ppo-cpu-strong",
            title="PPO to a return, CPU-bound nodes, 48 environments in all",
            workload="cartpole-ppo-strong",
            regime="cpu-bound",
            scaling="strong",
            cores=NODE_CORES,
            link_bits_per_s=GIGABIT,
            seconds=25,
            to_threshold=True,
        ),
    )
}

SIZES = (1, 2, 3, 4, 6, 8)
OURS = ("tianji", "xingtian")


class Part(Struct, frozen=True, kw_only=True):
    """One experiment of a profile."""

    systems: tuple[str, ...]
    sizes: tuple[int, ...] = SIZES
    copies: tuple[str, ...] = ()
    """Systems of which non-communicating copies, one on each node, run as well: the ceiling."""


class Profile(Struct, frozen=True, kw_only=True):
    """How much of the suite is run."""

    parts: dict[str, Part]
    """By experiment."""
    blocks: int

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(self.parts)


PROFILES = {
    "smoke": Profile(parts={"dqn-cpu-weak": Part(systems=OURS, sizes=(1, 2, 8), copies=("tianji",))}, blocks=1),
    "standard": Profile(
        parts={
            "ppo-cpu-weak": Part(systems=(*OURS, "tianji-one-learner"), copies=("tianji",)),
            "dqn-cpu-weak": Part(systems=(*OURS, "tianji-one-learner", "tianji-curve"), copies=("tianji", "xingtian")),
            "dqn-latency-weak": Part(systems=(*OURS, "tianji-one-learner"), copies=("tianji",)),
            "dqn-link-weak": Part(systems=(*OURS, "tianji-one-learner"), copies=("tianji",)),
        },
        blocks=5,
    ),
}
