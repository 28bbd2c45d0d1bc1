"""What is trained, how and until when: the data that every system is given alike."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from tianji.atari import is_atari
from tianji.config import NETWORKS_OF, AtariConfig, DQNConfig, IMPALAConfig, NetworkConfig, PPOConfig, SimulatorConfig
from tianji.envs import EnvDescription, describe
from tianji.settings import Count, Positive, PositiveFloat, Settings


class Thresholds(Settings):
    """Returns that count as solved."""

    training: float
    """Mean return of the last 100 finished training episodes."""
    evaluated: float
    """Mean greedy return of a snapshot over `episodes` seeded episodes."""


class Evaluation(Settings):
    """How snapshots are judged after the run; the same for every system."""

    episodes: Annotated[int, Meta(ge=2)] = 20
    in_a_row: Positive = 3
    """Snapshots in a row that must reach the threshold; the first of them is the crossing."""
    seed: Count = 10_000
    """Of the first episode; the others count up from it, and confirmation episodes go on from there."""


class Workload(Settings, kw_only=True):
    """One workload file, complete: nothing is left to a system's defaults."""

    id: Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$")]
    title: str
    env: str
    algo: Literal["ppo", "dqn", "impala"]
    environments: Positive
    """Over all actors."""
    actors: Positive | UnsetType = UNSET
    """Actor processes, where simulators wait rather than compute and so need no core each. Left out: the system's choice."""
    network: NetworkConfig
    ppo: PPOConfig | None = None
    dqn: DQNConfig | None = None
    impala: IMPALAConfig | None = None
    """Hyper-parameters of the algorithm that `algo` names; the others are absent."""
    atari: AtariConfig | None = None
    """How an Atari game is played; absent for everything else."""
    simulator: SimulatorConfig | None = None
    """Makes the environment's steps take time, or its observations pictures; absent: it is as it is."""
    fusion_rounds: Positive = 1
    """Rounds of updates between two exchanges of weights, of learners that are several."""
    horizon_steps: Positive
    """What schedules count towards: environment steps before the round that is trained on, summed over actors."""
    budget_steps: Positive
    budget_seconds: PositiveFloat
    """Of training, after set-up; the run is stopped and what it did is kept."""
    snapshot_every_steps: Positive
    thresholds: Thresholds
    evaluation: Evaluation = Evaluation()
    division: Literal["closed"] = "closed"

    def __post_init__(self) -> None:
        given = [name for name in ("ppo", "dqn", "impala") if getattr(self, name) is not None]
        if given != [self.algo]:
            raise ValueError(f"algo is {self.algo}: give a table [{self.algo}] and no other, not {given}")
        if isinstance(self.actors, int) and self.environments % self.actors:
            raise ValueError(f"actors {self.actors}: {self.environments} environments cannot be divided evenly among them")
        if self.network.kind not in NETWORKS_OF[self.algo]:
            known = " or ".join(repr(kind) for kind in NETWORKS_OF[self.algo])
            raise ValueError(f"algo {self.algo} trains a network of kind {known}, not {self.network.kind!r}")
        if self.network.kind == "factory":
            raise ValueError("a workload's network is of a kind that every system knows, not what a factory makes")
        if is_atari(self.env) is (self.atari is None):
            raise ValueError(f"a table [atari] belongs to Atari games, and to nothing else: env is {self.env}")

    @property
    def round_steps(self) -> int:
        """Environment steps of one update round."""
        if self.dqn is not None:
            return self.dqn.train_every_steps
        return self.environments * (self.impala or self.for_ppo).rollout_steps

    @property
    def certified(self) -> bool:
        """Whether there is an equivalence certificate for it: none for what only systems of one code train, or for pictures."""
        return self.beyond_common is None and not self.pictures

    @property
    def beyond_common(self) -> str | None:
        """What this asks for that other programs are not translated to, in a few words; None: nothing."""
        if self.algo == "impala":
            return "IMPALA is not translated to it"
        network = self.network
        options = ["dueling streams"] * network.dueling + ["GELU"] * (network.activation == "gelu")
        if network.kind not in ("mlp-separate", "mlp-q") or options:
            described = f"{network.kind} with {' and '.join(options)}" if options else network.kind
            return f"networks of kind {described} are not translated to it"
        if self.ppo is not None and self.ppo.value_clip is not None:
            return "a clipped value error is not translated to it"
        if self.dqn is not None and self.dqn.double:
            return "double Q-learning is not translated to it"
        return None

    @property
    def pictures(self) -> bool:
        """Whether its observations are pictures that a simulator draws."""
        return self.simulator is not None and self.simulator.picture is not None

    @property
    def games(self) -> AtariConfig:
        """How it is played, if it is an Atari game."""
        return self.atari or AtariConfig()

    def describe(self) -> EnvDescription:
        """The environment, as every system sees it; raises as `tianji.envs.describe` does."""
        return describe(self.env, self.games, self.simulator)

    @property
    def for_ppo(self) -> PPOConfig:
        """The PPO table; a `TypeError` where the workload has none."""
        if self.ppo is None:
            raise TypeError(f"workload {self.id} is not of PPO")
        return self.ppo

    @property
    def for_dqn(self) -> DQNConfig:
        """The DQN table; a `TypeError` where the workload has none."""
        if self.dqn is None:
            raise TypeError(f"workload {self.id} is not of DQN")
        return self.dqn
