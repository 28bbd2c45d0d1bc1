"""Profiles of the scaling suite, as constants."""

from pathlib import Path

import msgspec
from msgspec import Struct

from suites.scaling.experiment import Experiment

NAME = "scaling"
ABOUT = "throughput and time to a return on one to eight nodes, emulated or real"

EXPERIMENTS = {
    experiment.id: experiment
    for experiment in msgspec.toml.decode(
        Path(__file__).with_name("experiments.toml").read_bytes(), type=dict[str, tuple[Experiment, ...]]
    )["experiments"]
}

SIZES = (1, 2, 3, 4, 6, 8)
SOME, LARGEST = (1, 2, 4, 8), (8,)

Part = dict[str, tuple[int, ...]]
"""Systems of one experiment, and the numbers of nodes on which each runs. `<system>-copies`: as many runs of one node that know
nothing of each other, which is the ceiling."""


class Profile(Struct, frozen=True, kw_only=True):
    """Extent of a run of the suite."""

    parts: dict[str, Part]
    """Parts by experiment."""
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
