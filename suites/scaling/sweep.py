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
            seconds=16,
        ),
        Experiment(
            id="dqn-latency-weak",
            title="DQN on slow simulators, 16 a node",
            workload="cartpole-dqn-latency",
            regime="latency-bound",
            scaling="weak",
            cores=NODE_CORES,
            link_bits_per_s=GIGABIT,
            seconds=20,
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
SOME, LARGEST = (1, 2, 4, 8), (8,)

Part = dict[str, tuple[int, ...]]
"""Systems of one experiment, and the numbers of nodes on which each runs. `<system>-copies`: as many runs of one node that know
nothing of each other, which is the ceiling."""


class Profile(Struct, frozen=True, kw_only=True):
    """How much of the suite is run."""

    parts: dict[str, Part]
    """By experiment."""
    blocks: int
    twice: str | None = None
    """The system that runs twice in each block, on the largest number of nodes: A against A shows the noise floor."""

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(self.parts)


def _part(sizes: tuple[int, ...], some: tuple[int, ...]) -> Part:
    """The two that are compared on all sizes, what tells effects apart on some of them."""
    return {
        "tianji": sizes,
        "xingtian": sizes,
        "tianji-one-learner": tuple(n for n in some if n > 1),
        "tianji-copies": some,
    }


PROFILES = {
    "smoke": Profile(
        parts={"ppo-cpu-weak": {"tianji": (1, 2, 8), "xingtian": (1, 2, 8), "tianji-copies": LARGEST}},
        blocks=1,
    ),
    "standard": Profile(
        parts={
            "ppo-cpu-weak": _part(SIZES, LARGEST) | {"xingtian-copies": LARGEST, "rllib": SOME, "rllib-multi-learner": SOME},
            "dqn-cpu-weak": _part(SIZES, LARGEST) | {"tianji-curve": LARGEST},
            "dqn-latency-weak": _part(SIZES, LARGEST) | {"rllib": SOME},
            "dqn-link-weak": _part(SIZES, LARGEST) | {"tianji-curve": LARGEST},
            "ppo-cpu-strong": {"tianji": SIZES, "xingtian": SIZES},
        },
        blocks=5,
        twice="tianji",
    ),
    "paper": Profile(
        parts={
            "ppo-cpu-weak": _part(SIZES, SIZES) | {"xingtian-copies": SIZES, "rllib": SIZES, "rllib-multi-learner": SIZES},
            "dqn-cpu-weak": _part(SIZES, SIZES) | {"xingtian-copies": SIZES, "tianji-curve": SIZES, "rllib": SIZES},
            "dqn-latency-weak": _part(SIZES, SIZES) | {"xingtian-copies": SIZES, "tianji-curve": SIZES, "rllib": SIZES},
            "dqn-link-weak": _part(SIZES, SIZES) | {"xingtian-copies": SIZES, "tianji-curve": SIZES, "rllib": SIZES},
            "ppo-cpu-strong": _part(SIZES, SIZES) | {"rllib": SIZES, "rllib-multi-learner": SIZES},
        },
        blocks=10,
        twice="tianji",
    ),
}
