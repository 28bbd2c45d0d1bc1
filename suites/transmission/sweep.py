"""Profiles of the transmission suite, as constants."""

from pathlib import Path

import msgspec
from msgspec import Struct

from suites.transmission.analysis import CEILINGS
from suites.transmission.traffic import Extent, Traffic

NAME = "transmission"
ABOUT = "bandwidth and latency of every system's way of moving messages, against the hardware's"

WORKLOADS = {
    traffic.id: traffic
    for traffic in msgspec.toml.decode(
        Path(__file__).with_name("workloads.toml").read_bytes(), type=dict[str, tuple[Traffic, ...]]
    )["workloads"]
}

COMPETITORS = ("tianji", "xingtian", "ray-store", "mp-queue", "pyzmq")
ENCRYPTED = "tianji-curve"
SYSTEMS = (*COMPETITORS, ENCRYPTED, *CEILINGS)

KIB, MIB = 1 << 10, 1 << 20
POWERS_OF_FOUR = tuple(KIB << 2 * n for n in range(9))
"""1 KiB to 64 MiB."""
UP_TO_4_MIB, UP_TO_16_MIB = POWERS_OF_FOUR[:7], POWERS_OF_FOUR[:8]
FEW = (KIB, 64 * KIB, MIB, 16 * MIB)


class Profile(Struct, frozen=True, kw_only=True):
    """Extent of a run of the suite."""

    extents: dict[str, tuple[Extent, ...]]
    """Extents by workload. Each number of explorers is in one of them."""
    systems: tuple[str, ...]
    blocks: int
    twice: str
    """The system that runs twice in each block: A against A shows the noise floor."""

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(self.extents)


def _extent(sizes: tuple[int, ...], explorers: tuple[int, ...], window_s: float, trips: int = 300) -> Extent:
    return Extent(sizes=sizes, explorers=explorers, window_s=window_s, trips=trips)


MANY = (2, 4, 8, 16)

PROFILES = {
    "smoke": Profile(
        extents={
            "samples": (_extent(FEW, (1,), 0.1, 50),),
            "samples-2hosts-1gbit": (_extent((KIB, 64 * KIB, MIB), (1,), 0.2, 20),),
        },
        systems=SYSTEMS,
        blocks=1,
        twice="tianji",
    ),
    "standard": Profile(
        extents={
            "samples": (_extent(POWERS_OF_FOUR, (1,), 0.15), _extent(FEW, MANY, 0.15)),
            "weights": (_extent(FEW, (1, 16), 0.1),),
            "samples-2hosts": (_extent(UP_TO_16_MIB, (1, *MANY), 0.15),),
            "samples-2hosts-1gbit": (_extent(UP_TO_4_MIB, (1,), 0.2, 100), _extent((KIB, 64 * KIB, MIB), (4,), 0.2)),
        },
        systems=SYSTEMS,
        blocks=5,
        twice="tianji",
    ),
    "paper": Profile(
        extents={
            "samples": (_extent(POWERS_OF_FOUR, (1, *MANY), 0.5, 1000),),
            "weights": (_extent(POWERS_OF_FOUR, (1, *MANY), 0.5),),
            "samples-2hosts": (_extent(POWERS_OF_FOUR, (1, *MANY), 0.5, 1000),),
            "samples-2hosts-1gbit": (_extent(POWERS_OF_FOUR, (1, *MANY), 0.5, 1000),),
            "weights-2hosts-1gbit": (_extent(UP_TO_16_MIB, (1, *MANY), 0.5),),
        },
        systems=SYSTEMS,
        blocks=10,
        twice="tianji",
    ),
}
