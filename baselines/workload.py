"""Workloads: environment, algorithm, budget and thresholds, the same for every system."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from programs.cli import ConfigError
from tianji.algorithms import networks
from tianji.algorithms.networks import FlatNetwork
from tianji.config import (
    ActionsConfig,
    AtariConfig,
    DQNConfig,
    IMPALAConfig,
    NetworkConfig,
    NormaliseConfig,
    PPOConfig,
    SACConfig,
    SimulatorConfig,
    TD3Config,
)
from tianji.environments.atari import is_atari
from tianji.environments.description import EnvDescription
from tianji.environments.making import describe
from tianji.hyperparameters import ALGORITHMS, Hyperparameters, ReplayConfig
from tianji.settings import Count, Positive, PositiveFloat, Seconds, Settings


class Thresholds(Settings):
    """Returns that count as solved."""

    training: float
    """Mean return of the last 100 finished training episodes."""
    evaluated: float
    """Mean return of a snapshot over `episodes` seeded episodes."""


class Evaluation(Settings):
    """Evaluation of snapshots after the run, the same for every system."""

    episodes: Annotated[int, Meta(ge=2)] = 20
    """Episodes for each snapshot."""
    sampled: bool = False
    """Whether actions are sampled, as the RL Baselines3 Zoo does for Atari games: with the best ones a rally may never end."""
    averaged: Positive = 10
    """Number of snapshots in a row whose mean must reach the threshold. The last of them is the crossing."""
    in_a_row: Positive = 3
    """Of sessions before December 2026 that stopped at their return: that many snapshots, each at or above the threshold."""
    seed: Count = 10_000
    """Seed of the first episode. The others count up from it."""


class Workload(Settings, kw_only=True):
    """Contents of one workload file. A key that is left out has this project's default, for every system."""

    id: Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$")]
    """Name of the file without `.toml`: words of lower-case letters and digits, at least two, joined by dashes."""
    title: str
    """As a reader of the report should see it."""
    env: str
    """As in the settings of a run."""
    algo: Literal["ppo", "dqn", "impala", "sac", "td3"]
    """The algorithm. Exactly one table of that name gives its hyper-parameters."""
    environments: Positive
    """Number of environments over all actors."""
    actors: Positive | UnsetType = UNSET
    """Number of actor processes, for simulators that wait instead of computing. Default: the system decides."""
    network: NetworkConfig
    ppo: PPOConfig | None = None
    dqn: DQNConfig | None = None
    impala: IMPALAConfig | None = None
    sac: SACConfig | None = None
    td3: TD3Config | None = None
    """Settings of the algorithm that `algo` names. The tables of other algorithms are absent."""
    atari: AtariConfig | None = None
    """Wrappers of an Atari game; absent for other environments."""
    simulator: SimulatorConfig | None = None
    """Delays or pictures added to the environment; absent: it is used as it is."""
    actions: ActionsConfig | UnsetType = UNSET
    """The policy over actions that are numbers. It belongs to an environment with such actions, and to no other."""
    normalise: NormaliseConfig | UnsetType = UNSET
    """Normalisation of observations and rewards; absent: there is none."""
    device: Literal["cuda"] | UnsetType = UNSET
    """Device on which updates are computed, if it is not the CPU."""
    update_seconds: Seconds = 0.0
    """Least duration of a round of updates: the learner waits, as if an accelerator of this speed computed it."""
    fusion_rounds: Positive = 1
    """Rounds of updates between two exchanges of weights, if there are several learners."""
    horizon_steps: Positive
    """End of schedules, in environment steps summed over actors. A round counts the steps before it."""
    budget_steps: Positive
    """Environment steps that a run may take."""
    budget_seconds: PositiveFloat
    """Most seconds of training after set-up. The run is then stopped, and its results are kept."""
    snapshot_every_steps: Positive
    """Environment steps between two snapshots, which are judged after the run."""
    thresholds: Thresholds
    evaluation: Evaluation = Evaluation()
    division: Literal["closed"] = "closed"
    """Every system trains with these hyper-parameters."""

    def __post_init__(self) -> None:
        given = [name for name in ALGORITHMS if getattr(self, name) is not None]
        if given != [self.algo]:
            raise ValueError(f"algo is {self.algo}: give a table [{self.algo}] and no other, not {given}")
        if isinstance(self.actors, int) and self.environments % self.actors:
            raise ValueError(f"actors {self.actors}: {self.environments} environments cannot be divided evenly among them")
        msgspec.structs.force_setattr(self, "network", self.network.of(self.algo, pictures=is_atari(self.env)))
        ALGORITHMS[self.algo].check_network(self.algo, self.network.kind)
        if isinstance(self.actions, ActionsConfig):
            msgspec.structs.force_setattr(self, "actions", self.hyperparameters.form(self.algo, self.actions))
        if self.network.kind == "factory":
            raise ValueError("a workload's network is of a kind that every system knows, not what a factory makes")
        if self.evaluation.sampled and self.algo in ("dqn", "td3"):
            raise ValueError(f"evaluation.sampled is for policies with probabilities, not for algo {self.algo}")
        if is_atari(self.env) is (self.atari is None):
            raise ValueError(f"a table [atari] belongs to Atari games, and to nothing else: env is {self.env}")

    @property
    def round_steps(self) -> int:
        """Environment steps of one update round."""
        if isinstance(self.hyperparameters, ReplayConfig):
            return self.hyperparameters.train_every_steps
        return self.environments * (self.impala or self.for_ppo).rollout_steps

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Settings of its algorithm."""
        found: Hyperparameters = getattr(self, self.algo)
        return found

    @property
    def certified(self) -> bool:
        """Whether an equivalence certificate exists: not for pictures, nor if only in-house systems can train on it."""
        return self.beyond_soft is None and not self.pictures

    @property
    def beyond_common(self) -> str | None:
        """Features of this workload that have no translation to other programs, in words; None: there are none."""
        return "IMPALA is not translated to it" if self.algo == "impala" else self.beyond_all

    @property
    def beyond_soft(self) -> str | None:
        """As `beyond_common`, but for a program that also has SAC and TD3."""
        return self.beyond_any if self.squashes else self.beyond_common

    @property
    def beyond_all(self) -> str | None:
        """As `beyond_common`, but for a program that also has IMPALA."""
        network = self.network
        options = ["dueling streams"] * network.dueling + ["GELU"] * (network.activation == "gelu")
        if network.kind not in ("mlp-separate", "mlp-q") or options:
            described = f"{network.kind} with {' and '.join(options)}" if options else network.kind
            return f"networks of kind {described} are not translated to it"
        return self.beyond_any

    @property
    def beyond_any(self) -> str | None:
        """As `beyond_all`, whatever the network."""
        if self.device:
            return "updates on a GPU are not translated to it"
        if self.update_seconds:
            return "a learner that waits is not translated to it"
        if not self.squashes and isinstance(self.actions, ActionsConfig) and self.actions.bounds != "clip":
            return "squashed actions are not translated to it"
        if self.ppo is not None and self.ppo.value_clip is not None:
            return "a clipped value error is not translated to it"
        if self.ppo is not None and self.ppo.correction == "decoupled":
            return "decoupled clipping is not translated to it"
        if self.ppo is not None and self.ppo.clips_apart:
            return "gradients that are clipped apart are not translated to it"
        if self.dqn is not None and self.dqn.double:
            return "double Q-learning is not translated to it"
        if self.sac is not None and self.sac.critic_learning_rate is not None:
            return "a learning rate of the critics alone is not translated to it"
        if isinstance(self.hyperparameters, ReplayConfig) and self.hyperparameters.recent:
            return "a preference for recent transitions is not translated to it"
        return None

    @property
    def beyond_choices(self) -> str | None:
        """Why a program cannot have it that knows choices as actions, and observations as they are, alone; None: it can."""
        if self.normalises:
            return "normalisation is not translated to it"
        return "actions that are numbers are not translated to it" if isinstance(self.actions, ActionsConfig) else None

    @property
    def beyond_gaussians(self) -> str | None:
        """As `beyond_choices`, but for a program with PPO's independent Gaussians and normalisation."""
        if self.algo != "ppo":
            return self.beyond_choices
        gaussian = self.actions if isinstance(self.actions, ActionsConfig) else ActionsConfig()
        if gaussian.exploration == "state":
            return "state-dependent exploration is not translated to it"
        plain = ActionsConfig()
        if (gaussian.log_scale_min, gaussian.log_scale_max) != (plain.log_scale_min, plain.log_scale_max):
            return "bounds of the deviation are not translated to it"
        return None

    @property
    def squashes(self) -> bool:
        """Whether its algorithm has squashed actions, whatever the table [actions] says."""
        return self.algo in ("sac", "td3")

    @property
    def normalises(self) -> bool:
        """Whether observations or rewards are normalised."""
        return self.normalises_observations or self.normalises_rewards

    @property
    def normaliser(self) -> NormaliseConfig:
        """The table [normalise]; without one, that of no normalisation."""
        return self.normalise or NormaliseConfig()

    @property
    def normalises_observations(self) -> bool:
        """Whether observations are normalised."""
        return self.normaliser.observations

    @property
    def normalises_rewards(self) -> bool:
        """Whether rewards are normalised."""
        return self.normaliser.rewards

    @property
    def pictures(self) -> bool:
        """Whether its observations are pictures that a simulator draws."""
        return self.simulator is not None and self.simulator.picture is not None

    @property
    def games(self) -> AtariConfig:
        """Atari settings, used if it is an Atari game."""
        return self.atari or AtariConfig()

    def describe(self) -> EnvDescription:
        """The environment, as every system sees it; raises as `tianji.environments.making.describe` does."""
        found = describe(self.env, self.games, self.simulator).seen_by(self.network.kind)
        if isinstance(self.actions, ActionsConfig) is not (found.actions.kind == "box"):
            raise ConfigError(f"workload {self.id}: a table [actions] belongs to actions that are numbers, and to nothing else")
        actions = found.actions.under(self.actions) if isinstance(self.actions, ActionsConfig) else found.actions
        return replace(found, actions=actions, normalised=self.normalises_observations)

    def flat_network(self, describe: EnvDescription | None = None) -> FlatNetwork:
        """The network that every system trains. The environment is described if the caller has not done so."""
        return networks.fitted(self.network, self.normaliser, describe or self.describe())

    def check_device(self) -> None:
        """Check that its device is here. This imports torch only where a workload is for a GPU.

        Raises
        ------
        ConfigError
            where it is not.
        """
        if self.device:
            import torch

            if not torch.cuda.is_available():
                raise ConfigError(f"workload {self.id}: its updates are for a GPU, and torch finds no CUDA device here")

    @property
    def for_ppo(self) -> PPOConfig:
        """The PPO table. `TypeError` if the workload has none."""
        if self.ppo is None:
            raise TypeError(f"workload {self.id} is not of PPO")
        return self.ppo

    @property
    def for_sac(self) -> SACConfig:
        """The SAC table. `TypeError` if the workload has none."""
        if self.sac is None:
            raise TypeError(f"workload {self.id} is not of SAC")
        return self.sac

    @property
    def for_td3(self) -> TD3Config:
        """The TD3 table. `TypeError` if the workload has none."""
        if self.td3 is None:
            raise TypeError(f"workload {self.id} is not of TD3")
        return self.td3

    @property
    def for_dqn(self) -> DQNConfig:
        """The DQN table. `TypeError` if the workload has none."""
        if self.dqn is None:
            raise TypeError(f"workload {self.id} is not of DQN")
        return self.dqn
