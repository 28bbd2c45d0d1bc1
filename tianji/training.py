"""`train(config) -> Result`: the Python entry point."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tianji.algorithms import kernels, networks
from tianji.algorithms.networks import Vector
from tianji.checkpoint import Policy
from tianji.config import TrainConfig
from tianji.envs import EnvDescription, describe
from tianji.launch import local
from tianji.messages import Done, Episodes, FromRole, Report, Snapshot, Started
from tianji.settings import ConfigError
from tianji.worlds import lockstep

WINDOW = 100
"""Episodes in the training mean."""

Outcome = Literal["return", "steps", "seconds", "interrupted"]


@dataclass
class Result:
    """What a run did."""

    config: TrainConfig
    describe: EnvDescription
    outcome: Outcome
    """Which limit ended it."""
    steps: int
    """Environment steps trained on, over all groups."""
    version: int
    """Optimizer steps, over all groups."""
    seconds: float
    """From the first environment step of any actor to the last snapshot (or to `stop_return`, reached while sampling)."""
    mean_return: float | None
    """Of the last 100 finished episodes (of all, where there were fewer); None when none finished."""
    episodes: int
    weights: Vector
    reached_s: float | None = None
    """When the training mean reached `stop_return`, in seconds from the first environment step."""
    reached_steps: int | None = None
    """Environment steps that the actors had taken by then."""
    reports: list[Report] = field(default_factory=list)

    @property
    def policy(self) -> Policy:
        network = networks.build(self.config.network, self.describe.features, self.describe.actions)
        return Policy(network, self.weights)


class _Watch:
    """Listens to the roles, keeps what the result needs and says when the run should end."""

    def __init__(self, config: TrainConfig, listener: Callable[[FromRole], None] | None) -> None:
        self.config = config
        self.listener = listener
        self.first_step_ns: int | None = None
        self.returns: deque[float] = deque(maxlen=WINDOW)
        self.episodes = 0
        self.reached_ns: int | None = None
        self.reached_steps: int | None = None
        self.actor_steps: dict[str, int] = {}
        self.last: Snapshot | None = None
        self.reports: list[Report] = []
        self.outcome: Outcome | None = None
        self.done = 0
        """Learners that have used up their share of the budget."""

    def __call__(self, message: FromRole) -> str | None:
        if self.listener is not None:
            self.listener(message)
        match message:
            case Started(role=role, at_ns=at) if role.startswith("actor"):
                self.first_step_ns = at if self.first_step_ns is None else min(at, self.first_step_ns)
            case Episodes(role=role, actor_steps=steps, episodes=episodes):
                self.actor_steps[role] = steps
                return self._episodes([(e.at_ns, e.episode_return) for e in episodes])
            case Snapshot():
                self.last = message
            case Report():
                self.reports.append(message)
            case Done():
                self.done += 1
                if self.done == self.config.groups:
                    self.outcome = self.outcome or "steps"
                    return "steps"
        return None

    def _episodes(self, finished: list[tuple[int, float]]) -> str | None:
        threshold = self.config.stop_return
        for at, value in finished:
            self.returns.append(value)
            self.episodes += 1
            full = len(self.returns) == WINDOW
            if threshold is not None and self.reached_ns is None and full and np.mean(self.returns) >= threshold:
                self.reached_ns = at
                self.reached_steps = sum(self.actor_steps.values())
                self.outcome = self.outcome or "return"
        return "return" if self.reached_ns is not None else None


def check(config: TrainConfig) -> EnvDescription:
    """Make the environment and the network once and see whether this can be trained here.

    Raises
    ------
    ConfigError
        for an environment that cannot be trained on, a network that cannot see it or that the algorithm or the kernel is not
        for, or a device that is not there.
    """
    description = describe(config.env, config.atari)
    kernels.check(config, networks.build(config.network, description.features, description.actions))
    if config.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise ConfigError("device cuda: torch finds no CUDA device here; use --device cpu")
    return description


def train(config: TrainConfig, listener: Callable[[FromRole], None] | None = None) -> Result:
    """Train, and return when a limit is reached or Ctrl-C is pressed.

    Parameters
    ----------
    listener
        is told everything that roles report, as it comes.

    Raises
    ------
    ConfigError
        see `check`.
    tianji.launch.local.RoleFailed
        when a role's process fails.
    """
    description = check(config)
    watch = _Watch(config, listener)
    try:
        if config.world == "lockstep":
            lockstep.run(config, description, _with_time_limit(watch, config.stop_seconds))
        else:
            local.run(config, description, watch)
    except KeyboardInterrupt:
        watch.outcome = "interrupted"
    return _result(watch, config, description)


def _with_time_limit(watch: _Watch, stop_seconds: float | None) -> Callable[[FromRole], str | None]:
    """The lockstep world has no launcher with a clock: look at it whenever something is reported."""
    if stop_seconds is None:
        return watch
    deadline = time.monotonic() + stop_seconds

    def timed(message: FromRole) -> str | None:
        return watch(message) or ("seconds" if time.monotonic() >= deadline else None)

    return timed


def _result(watch: _Watch, config: TrainConfig, description: EnvDescription) -> Result:
    network = networks.build(config.network, description.features, description.actions)
    last, first = watch.last, watch.first_step_ns
    weights = network.initialise(config.seed) if last is None else np.frombuffer(last.weights, "<f4").copy()
    counters: Counter[str] = Counter()
    for report in watch.reports:
        if report.role.startswith("learner"):
            counters.update({name: int(report.counters[name]) for name in ("steps", "optimizer_steps")})
    return Result(
        config=config,
        describe=description,
        outcome=watch.outcome or "seconds",
        steps=counters.get("steps", last.steps if last else 0),
        version=counters.get("optimizer_steps", last.version if last else 0),
        seconds=0.0 if first is None or last is None else max(0, last.at_ns - first, (watch.reached_ns or 0) - first) / 1e9,
        mean_return=float(np.mean(watch.returns)) if watch.returns else None,
        episodes=watch.episodes,
        weights=weights,
        reached_s=None if watch.reached_ns is None or first is None else (watch.reached_ns - first) / 1e9,
        reached_steps=watch.reached_steps,
        reports=watch.reports,
    )
