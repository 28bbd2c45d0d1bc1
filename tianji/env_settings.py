"""Settings of the environment: making, wrapping, normalising and slowing it, and the policy over actions that are numbers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tianji import references
from tianji.settings import Count, Positive, PositiveFloat, Seconds, Settings


class AtariConfig(Settings):
    """Wrappers for Atari 2600 games (environments named `ALE/...`). Other environments ignore them.

    They are the wrappers of Mnih et al. (2015) as OpenAI Baselines defines them. Sticky actions are off.
    """

    screen: Literal[84, 42] = 84
    """Side in pixels of the grey square to which each frame is scaled."""
    stack: Annotated[int, Meta(ge=1, le=16)] = 4
    """Number of latest frames in one observation."""
    frame_skip: Positive = 4
    """Frames of the game in one step of the environment. The action is repeated, and the last two frames are max-pooled."""
    noop_max: Count = 30
    """Most no-op actions at the start of a game. Their number is drawn between 1 and this; 0 turns them off."""
    episodic_life: bool = True
    """Whether losing a life ends the learner's episode. The game goes on, and evaluation plays whole games."""
    fire_reset: bool = True
    """Whether episodes start with the action FIRE in games that have it. Some games wait for it."""
    subtract_background: bool = False
    """Whether each pixel shows three times its distance from its median over random play, so that still pixels are black.
    Small screens on which little changes are learnt several times faster this way (docs/notebook/2026-11-speed.md)."""
    clip_rewards: bool = True
    """Whether the learner sees only the sign of each reward. Reported returns and evaluation are unclipped."""


class ActionsConfig(Settings):
    """The policy over actions that are numbers (Box). Other actions ignore it.

    It is a Gaussian for each number. For PPO and IMPALA the network computes the mean, and the standard deviation is a
    parameter of its own. For SAC the network computes both. With SAC and TD3 actions are always squashed.
    """

    bounds: Literal["clip", "squash"] = "clip"
    """How numbers are held between the environment's bounds. `clip` (default): the environment gets the nearest number within.
    `squash`: it gets tanh of the number, stretched to the bounds. The policy's probabilities are those of the number before."""
    exploration: Literal["independent", "state"] = "independent"
    """Where the deviation comes from. `independent` (default): it is a parameter of each number, and noise is drawn at each
    step. `state`: it grows with the last hidden layer, and noise is a matrix that is kept for some steps (gSDE; Raffin et al.,
    2021, arXiv 2005.05719). For perceptrons."""
    noise_steps: Positive | None = None
    """Steps for which a matrix of noise is kept, for exploration `state`. None: for a fragment."""
    log_scale: Annotated[float, Meta(ge=-20, le=5)] = 0.0
    """Initial logarithm of the standard deviation; for exploration `state`, of each entry of the matrix."""
    log_scale_min: Annotated[float, Meta(ge=-20, le=5)] = -20.0
    """Smallest logarithm of the standard deviation, for exploration `independent`."""
    log_scale_max: Annotated[float, Meta(ge=-20, le=5)] = 2.0
    """Largest logarithm of the standard deviation, for exploration `independent`."""

    def __post_init__(self) -> None:
        if self.noise_steps is not None and self.exploration != "state":
            raise ValueError("actions.noise_steps is for exploration 'state'")
        if not self.log_scale_min <= self.log_scale <= self.log_scale_max:
            raise ValueError(
                f"actions.log_scale {self.log_scale} is not between log_scale_min {self.log_scale_min} and log_scale_max "
                f"{self.log_scale_max}"
            )


class NormaliseConfig(Settings):
    """Normalisation of observations and rewards by running statistics, for PPO and IMPALA.

    The statistics are counted over all actors and groups, change once a round, and are stored with the policy.
    """

    observations: bool = False
    """Whether each feature of an observation is shifted by its mean and divided by its standard deviation. Not for pictures."""
    rewards: bool = False
    """Whether rewards are divided by the standard deviation of discounted returns. Reported returns are not."""
    clip_observations: PositiveFloat = 10.0
    """Largest absolute value of a normalised feature."""
    clip_rewards: PositiveFloat = 10.0
    """Largest absolute value of a normalised reward."""


class EnvironmentConfig(Settings):
    """How an environment is made, and what is put around it, in the order of these settings."""

    args: dict[str, Any] = msgspec.field(default_factory=dict)
    """Arguments of the environment's constructor, by name. On the command line: `--env-arg NAME=VALUE`."""
    time_limit: Positive | None = None
    """Steps after which an episode is truncated. None: the environment's own limit."""
    wrappers: tuple[str | dict[str, Any], ...] = ()
    """Wrappers as `module:Class`, the first one innermost. A table has the entry `wrapper`, and arguments for it."""
    frame_skip: Positive = 1
    """Steps of the environment in one step of the agent. The action is repeated, and rewards are summed."""
    grey: bool = False
    """Whether colour pictures are turned to grey."""
    resize: Positive | None = None
    """Side in pixels of the square to which pictures are scaled. None: they keep their size."""
    stack: Annotated[int, Meta(ge=1, le=16)] = 1
    """Number of latest observations in one network input. Atari games have `atari.stack`."""
    vector: Literal["never", "always", "auto"] = "never"
    """Whether an actor steps one vector environment instead of single ones. `always`: the registered vector form, or
    `module:name` called with `num_envs`. `auto`: the quicker, measured once."""

    def __post_init__(self) -> None:
        for wrapper in self.wrappers:
            name = wrapper if isinstance(wrapper, str) else wrapper.get("wrapper")
            if not isinstance(name, str):
                raise ValueError("environment.wrappers: a table needs the entry `wrapper`, for instance my_module:Shape")
            try:
                references.split(name)
            except ValueError as error:
                raise ValueError(f"environment.wrappers {name}: {error}") from None

    @property
    def wrapper_names(self) -> tuple[str, ...]:
        """The wrappers, as `module:Class`."""
        return tuple(one if isinstance(one, str) else str(one["wrapper"]) for one in self.wrappers)


class SimulatorConfig(Settings):
    """Added delays and pictures that make any environment stand in for a slow simulator (`tianji.environments.delays`)."""

    step_seconds: Seconds = 0.0
    """Mean delay added to each step, in seconds. The environment waits and uses no CPU. 0: no delay."""
    reset_seconds: Seconds = 0.0
    """Mean delay added to each reset, in seconds, on top of the step that ended the episode. 0: no delay."""
    distribution: Literal["constant", "lognormal", "pareto"] = "constant"
    """Distribution of both delays around their means."""
    sigma: Annotated[float, Meta(gt=0, le=4)] | None = None
    """Standard deviation of the logarithm of a delay. Needed by `lognormal`, and for it alone."""
    alpha: Annotated[float, Meta(gt=1, le=100)] | None = None
    """Tail exponent of a Pareto delay: the probability of a delay above x falls as x^-alpha. Needed by `pareto`, and for it
    alone."""
    truncation: Annotated[float, Meta(gt=1, le=1e6)] | None = None
    """Largest Pareto delay over the smallest one. The mean stays as stated. None: there is no largest."""
    drawn_every: Positive = 1
    """Number of steps in a row of an environment that share one drawn delay. With the length of a fragment, delays differ from
    fragment to fragment instead of averaging out within each."""
    computes: bool = False
    """Whether a simulator uses a core for its delay instead of waiting."""
    spread: Annotated[float, Meta(ge=1, le=1000)] = 1.0
    """Ratio of the slowest environment's mean delays to the fastest's. 1: all have the same."""
    spread_over: Annotated[int, Meta(ge=2)] = 8
    """Number of environments over which the mean delays go from fastest to slowest in even steps. The pattern then repeats,
    so that nodes with this many environments each are alike."""
    straggler: Annotated[float, Meta(ge=1, le=1000)] = 1.0
    """Ratio of the mean delays of the last of each `spread_over` environments to those of the others, which are alike. 1: it is
    like them."""
    ranks: Positive = 1
    """Cores inside each simulator. Both delays are stated for one core, and shrink by Amdahl's law with `serial`."""
    serial: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Share of a delay that more ranks do not shorten."""
    picture: Annotated[int, Meta(ge=4, le=1024)] | None = None
    """Side in pixels of the RGB picture that replaces each observation. None: observations stay as they are."""
    grain: Annotated[int, Meta(ge=0, le=64)] = 0
    """Largest sensor noise added to each byte of a picture. Without noise (0), pictures compress a hundredfold, which no
    camera's pictures do."""

    def __post_init__(self) -> None:
        for name, wanted in (("sigma", "lognormal"), ("alpha", "pareto")):
            if self.distribution == wanted and getattr(self, name) is None:
                raise ValueError(f"simulator.distribution {wanted!r} needs simulator.{name}, for instance 1.5")
            if self.distribution != wanted and getattr(self, name) is not None:
                raise ValueError(f"simulator.{name} is for distribution {wanted!r}, not {self.distribution!r}")
        if self.truncation is not None and self.distribution != "pareto":
            raise ValueError(f"simulator.truncation is for distribution 'pareto', not {self.distribution!r}")
        if self.spread > 1 and self.straggler > 1:
            raise ValueError("simulator.spread and simulator.straggler exclude each other: leave one of them at 1")
        if self.ranks > 1 and self.computes:
            raise ValueError("simulator.ranks is for simulators that wait: one that computes does so on one core")
        if self.grain and self.picture is None:
            raise ValueError("simulator.grain is for pictures: give simulator.picture their side")

    @property
    def shorter(self) -> float:
        """Share of a delay on one core that `ranks` cores leave (Amdahl, 1967)."""
        return self.serial + (1 - self.serial) / self.ranks

    @property
    def waits(self) -> bool:
        """Whether there is any delay."""
        return self.step_seconds > 0 or self.reset_seconds > 0
