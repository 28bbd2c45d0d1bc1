"""Cells and profiles of the asynchrony suite, as constants."""

from msgspec import Struct

from suites.disciplines import sweep as disciplines

NAME = "asynchrony"
ABOUT = "when relaxing dependencies pays: throughput under each discipline over rho, M and the number of actors"

BASE = "cartpole-ppo-equal"
"""Every cell is this workload with other delays and another number of actors. Rounds have as many samples in each."""
BARRIER = "tianji"
"""Ratios are over it: on policy it waits for every actor, and then for the learner."""
RELAXED = "tianji-relaxed"
SYSTEMS = (
    BARRIER,
    "tianji-quota-free",
    "tianji-exactly-one-round",
    "tianji-admitted-in-order-1",
    "tianji-admitted-1",
    RELAXED,
    "tianji-free",
)
ALPHA = 1.5
"""Tail exponent of the Pareto delays. Their truncation follows from M."""
GROUPED = "tianji-grouped"
"""Relaxed, with two learners that do not wait for each other: the last rung of the ladder."""
CALIBRATING = 10
"""One cell out of so many calibrates. The others are held out."""
FIRST_CALIBRATING = 4


class Split(Struct, frozen=True):
    """Cores inside each simulator, and how well it uses them."""

    ranks: int
    serial: float
    """Share of a step that more ranks do not shorten."""

    @property
    def shorter(self) -> float:
        """Share of a step's time on one core that is left (Amdahl, 1967)."""
        return self.serial + (1 - self.serial) / self.ranks


class Setting(Struct, frozen=True):
    """One cell: who waits how long."""

    delays: str
    """`constant`; `tail`: truncated Pareto, drawn for each fragment; `straggler`: one actor is slower; `unequal`: even steps of
    speed."""
    actors: int
    m: float
    """E[max] over E[mean] of the fragments of all actors, as stated; of a split, with simulators of one core. A session
    measures what it comes to."""
    rho: float
    """Mean fragment over the learner's time for a round, likewise."""
    computes: bool = False
    """Whether its simulators compute instead of waiting: the control."""
    split: Split | None = None
    """How simulators share a budget of cores; None: nothing is said of it."""

    @property
    def workload(self) -> str:
        """Id of its workload; M, rho and serial shares in hundredths."""
        if self.split is not None:
            return f"cartpole-ppo-split-{self.actors}x{self.split.ranks}-serial{self.split.serial * 100:.0f}"
        control = "-computing" * self.computes
        return f"cartpole-ppo-{self.delays}-{self.actors}-m{self.m * 100:.0f}-rho{self.rho * 100:.0f}{control}"

    @property
    def title(self) -> str:
        """As a reader sees it."""
        if self.split is not None:
            many = f"{self.actors} simulators of {self.split.ranks} cores"
            return f"CartPole-v1, PPO, {many}, serial share {self.split.serial:g}"
        who = "simulators compute" if self.computes else "simulators wait"
        return f"CartPole-v1, PPO, {self.actors} actors, {self.delays} delays, stated rho {self.rho:g} and M {self.m:g}; {who}"


RHOS = (0.5, 1.0, 2.0)
CELLS = (
    *(Setting("constant", 8, 1.0, rho) for rho in RHOS),
    *(Setting("unequal", 8, 1.6, rho) for rho in RHOS),
    *(Setting("tail", 8, 3.0, rho) for rho in RHOS),
    *(Setting("straggler", 8, 3.0, rho) for rho in RHOS),
    Setting("tail", 8, 2.0, 1.0),
    *(Setting("constant", 32, 1.0, rho) for rho in RHOS),
    *(Setting("tail", 32, 3.0, rho) for rho in RHOS),
    *(Setting("straggler", 32, 3.0, rho) for rho in RHOS),
    *(Setting("constant", 2, 1.0, rho) for rho in RHOS[1:]),
    *(Setting("tail", 2, 1.4, rho) for rho in RHOS[1:]),
    Setting("unequal", 2, 1.5, 0.5, computes=True),
)
"""All cells, in a fixed order. No rho is near the native one, at which simulators add no delay."""
CONFIRMED = (
    Setting("tail", 8, 3.0, 1.0),
    Setting("straggler", 8, 3.0, 1.0),
    Setting("constant", 8, 1.0, 1.0),
    Setting("tail", 32, 3.0, 1.0),
)
"""Cells of which the time to the return and the last rung of the ladder are measured, too."""


SPLIT_CORES, SERIAL = 16, (0.0, 0.1, 0.3)
"""Cores that simulators share, and serial shares of a step."""
SPLIT_M = 3.0
"""M where each core is a simulator. With fewer simulators it is less, as delays are drawn from the same distribution."""
SPLITS = tuple(
    Setting("tail", SPLIT_CORES // split.ranks, SPLIT_M, split.shorter * split.ranks, split=split)
    for serial in SERIAL
    for split in (Split(2**n, serial) for n in range(SPLIT_CORES.bit_length()))
)
"""Every split of the cores into simulators of equally many, for every serial share. A simulator of one core takes as long for
its part of a round as the learner for the round: rho is 1 there. With more ranks its part of a round is larger."""


FRESH = (
    Setting("constant", 2, 1.0, 3.0),
    Setting("constant", 4, 1.0, 0.75),
    Setting("constant", 16, 1.0, 1.5),
    Setting("tail", 2, 1.3, 0.75),
    Setting("tail", 4, 1.7, 1.0),
    Setting("tail", 16, 2.5, 0.75),
    Setting("tail", 16, 2.5, 1.5),
    Setting("straggler", 4, 2.0, 0.75),
    Setting("straggler", 16, 4.0, 1.0),
    Setting("unequal", 4, 1.5, 1.0),
    Setting("unequal", 16, 1.6, 0.75),
    Setting("unequal", 16, 1.6, 2.0),
)
"""Cells in which `auto` is judged: no rho, M and number of actors of the map are among them."""
CANDIDATES = (BARRIER, "tianji-quota-free", "tianji-exactly-one-round", RELAXED)
"""Systems of the rules among which `auto` chooses."""
AUTO = ("tianji-auto", "tianji-auto-priced")
"""By throughput alone, and by the price of staleness that was fitted on CartPole."""


def every() -> tuple[Setting, ...]:
    """All cells that a profile or a user may ask for."""
    return *CELLS, *SPLITS, *FRESH


def calibrating() -> tuple[str, ...]:
    """Workloads of the cells that calibrate: every tenth one of the table."""
    return tuple(cell.workload for cell in CELLS[FIRST_CALIBRATING::CALIBRATING])


class Profile(disciplines.Profile, frozen=True, kw_only=True):
    """Extent of a run of the suite."""

    workloads: tuple[str, ...] = ()
    """Unused: cells say it."""
    cells: tuple[Setting, ...] = CELLS
    systems: tuple[str, ...] = SYSTEMS
    twice: str = BARRIER
    """Runs again in the cells of `CONFIRMED` alone. Empty: none does."""
    seconds: float | None
    """Length of a run, from whose steady part throughput is read. None: a run ends at its return, or at its budget."""
    suffix: str = ""
    """Ends the ids of its workloads: their runs are of another length or for another question, so they are never pooled with
    those of other profiles."""


TO_RETURN, LADDER = "-to-return", "-ladder"
SUFFIXES = (TO_RETURN, LADDER)
"""Suffixes of profiles whose cells are no cells of the map."""


def plain(workload: str) -> str:
    """Id of a cell, without the suffix of a profile."""
    for suffix in SUFFIXES:
        workload = workload.removesuffix(suffix)
    return workload


PROFILES = {
    "smoke": Profile(
        cells=(*CONFIRMED[::3], CONFIRMED[2], Setting("tail", 2, 1.4, 1.0)),
        systems=(BARRIER, "tianji-exactly-one-round", RELAXED),
        blocks=1,
        seconds=6.0,
    ),
    # 27 cells of 7 systems and 4 second runs are 193 runs a block, and 965 in all: 2.7 hours, and 16 minutes for each second of
    # a run's set-up.
    "standard": Profile(blocks=5, seconds=10.0),
    # 30 runs a block, and 150 in all: half an hour.
    "split": Profile(cells=SPLITS, systems=(BARRIER, RELAXED), blocks=5, seconds=10.0),
    # 12 cells of 6 systems: 216 runs, an hour and a half. A quarter of a run is left out of its throughput; in it `auto` should
    # have chosen.
    "auto": Profile(cells=FRESH, systems=(*CANDIDATES, *AUTO), blocks=3, seconds=20.0),
    # 160 runs. At 60,000 steps to the return and the stated round times (barrier 120, 120, 60 and 120 s, relaxed 30 s each) a
    # block takes 540 s: 3 hours, and what relaxed needs in steps beyond that.
    "confirm": Profile(
        cells=CONFIRMED,
        systems=(BARRIER, RELAXED),
        blocks=20,
        twice="",
        seconds=None,
        stop_at_goal=True,
        suffix=TO_RETURN,
    ),
    # 80 runs with the second ones of the barrier: 25 minutes.
    "ladder": Profile(cells=CONFIRMED, systems=(BARRIER, RELAXED, GROUPED), blocks=5, seconds=10.0, suffix=LADDER),
}
BUDGET_SECONDS = 240.0
"""Most seconds of a run that goes on to its return: more than the barrier takes for the budget of steps at rho 1 and M 3."""
