"""Watches a run: counts its roles' messages, checks goals and limits, and saves progress."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from tianji.algorithms import networks
from tianji.algorithms.networks import Vector
from tianji.config import TrainConfig
from tianji.disciplines.auto import Choice
from tianji.environments.description import EnvDescription
from tianji.launch.events import Evaluated, Heard, Restarted, Trouble
from tianji.messages import Done, Episodes, Report, Saved, Snapshot, Started
from tianji.policy import Policy, save_policy
from tianji.run.evaluations import Evaluations
from tianji.run_folder import RunFolder, Tally, replacing

WINDOW = 100
"""Number of episodes in the training mean."""

Outcome = Literal["return", "steps", "seconds", "listener", "interrupted"]


@dataclass
class Result:
    """Result of a run. For a resumed run, it covers the run from its first start."""

    config: TrainConfig
    describe: EnvDescription
    outcome: Outcome
    """The limit that ended the run."""
    steps: int
    """Environment steps trained on, over all groups."""
    version: int
    """Optimizer steps, over all groups."""
    seconds: float
    """Seconds from the first environment step to the last snapshot, or to the moment at which `stop_return` was reached."""
    mean_return: float | None
    """Mean return of the last 100 finished episodes, or of all if there were fewer. None if none finished."""
    episodes: int
    weights: Vector
    reached_s: float | None = None
    """Seconds from the first environment step until the training mean reached `stop_return`. None if it did not."""
    reached_steps: int | None = None
    """Environment steps taken by the actors until then."""
    reports: list[Report] = field(default_factory=list)
    restarts: list[Restarted] = field(default_factory=list)
    """Processes that died and were restarted, with the cause."""
    choice: Choice | None = None
    """The discipline that the run chose, if its discipline is `auto`."""

    @property
    def policy(self) -> Policy:
        return Policy(networks.of(self.config, self.describe), self.weights)

    def summary(self) -> dict[str, Any]:
        """Contents of a run's `result.json`, without its configuration."""
        return {
            "outcome": self.outcome,
            "steps": self.steps,
            "optimizer_steps": self.version,
            "seconds": self.seconds,
            "episodes": self.episodes,
            "mean_return": self.mean_return,
            "reached_s": self.reached_s,
            "reached_steps": self.reached_steps,
            "choice": msgspec.to_builtins(self.choice),
            "restarts": [{"role": r.role or "all roles", "cause": r.cause} for r in self.restarts],
        }


class Watch:
    """Listener that collects the result of a run and decides when it ends.

    Parameters
    ----------
    folder
        receives policies and progress.
    resume
        whether it continues the counts in the folder.
    """

    def __init__(
        self,
        config: TrainConfig,
        describe: EnvDescription,
        listener: Callable[[Any], object] | None,
        folder: RunFolder | None = None,
        *,
        resume: bool = False,
    ) -> None:
        self.config, self.describe = config, describe
        self.listener = listener
        self.folder = folder
        self.network = networks.of(config, describe)
        self.first_step_ns: int | None = None
        self.returns: deque[float] = deque(maxlen=WINDOW)
        self.episodes = 0
        self.seconds_before = 0.0
        self.reached_ns: int | None = None
        self.reached_steps: int | None = None
        self.actor_steps: dict[str, int] = {}
        self.last: Snapshot | None = None
        self.reports: list[Report] = []
        self.restarts: list[Restarted] = []
        self.choice: Choice | None = None
        self.evaluations: Evaluations | None = None
        """What evaluates beside training, if anything does."""
        self.best: tuple[float, Snapshot] | None = None
        """The highest mean return in evaluation beside training, and its snapshot."""
        self.outcome: Outcome | None = None
        self.done = 0
        """Number of learners that have used up their share of the budget."""
        if resume and folder is not None:
            past = folder.read_tally()
            self.returns.extend(past.returns)
            self.episodes, self.seconds_before = past.episodes, past.seconds
            self.choice = folder.read_choice()
        self._stored = self._counted()

    def __call__(self, message: Heard) -> str | None:
        asked = None if self.listener is None else self.listener(message)
        reason = self._heard(message)
        self._look_for_evaluations()
        if reason is None and isinstance(asked, str):
            self.outcome, reason = self.outcome or "listener", asked
        return reason

    def _heard(self, message: Heard) -> str | None:
        match message:
            case Started(role=role, at_ns=at) if role.startswith("actor"):
                self.first_step_ns = at if self.first_step_ns is None else min(at, self.first_step_ns)
            case Episodes(role=role, actor_steps=steps, episodes=episodes):
                others = sum(count for name, count in self.actor_steps.items() if name != role)
                self.actor_steps[role] = steps
                return self._episodes([(e.at_ns, e.episode_return, others + e.actor_steps) for e in episodes])
            case Snapshot():
                self.last = message
                if self.folder is not None:
                    self._save_policy(self.folder.policy, message)
                if self.evaluations is not None:
                    self.evaluations.offer(message)
            case Saved(at_ns=at):
                self.save_progress(at)
            case Choice():
                self.choice = message
                if self.folder is not None:
                    self.folder.save_choice(message)
            case Report():
                self.reports.append(message)
            case Restarted(role=role):
                self.restarts.append(message)
                if not role:
                    # All roles restart from their checkpoints, and report and play episodes again.
                    self.done = 0
                    self.reports.clear()
                    self.episodes, kept, actor_steps = self._stored
                    self.returns, self.actor_steps = deque(kept, maxlen=WINDOW), dict(actor_steps)
            case Done():
                self.done += 1
                if self.done == self.config.groups:
                    self.outcome = self.outcome or "steps"
                    return "steps"
        return None

    def _episodes(self, finished: list[tuple[int, float, int]]) -> str | None:
        """Count finished episodes: their time, return, and the environment steps of all actors by then."""
        threshold = self.config.stop_return
        for at, value, steps in finished:
            self.returns.append(value)
            self.episodes += 1
            full = len(self.returns) == WINDOW
            if threshold is not None and self.reached_ns is None and full and np.mean(self.returns) >= threshold:
                self.reached_ns = at
                self.reached_steps = steps
                self.outcome = self.outcome or "return"
        return "return" if self.reached_ns is not None else None

    def _save_policy(self, path: Path, snapshot: Snapshot, **more: str) -> None:
        policy = Policy(self.network, np.frombuffer(snapshot.weights, "<f4"))
        with replacing(path) as place:
            save_policy(place, policy, env=self.config.env, steps=str(snapshot.steps), **more)

    def evaluated(self, played: Iterable[tuple[Snapshot, Evaluated]]) -> None:
        """Pass on the returns of snapshots, and keep the best of them."""
        for snapshot, found in played:
            mean = float(np.mean(found.returns))
            if self.best is None or mean > self.best[0]:
                self.best = mean, snapshot
                if self.folder is not None:
                    self._save_policy(self.folder.best, snapshot, mean_return=str(mean))
            if self.listener is not None:
                self.listener(found)

    def _look_for_evaluations(self, *, last: bool = False) -> None:
        if self.evaluations is None:
            return
        try:
            self.evaluated(self.evaluations.last(self.last) if last else self.evaluations.finished())
        except RuntimeError as error:
            self.evaluations = None
            if self.listener is not None:
                self.listener(Trouble("", str(error), time.monotonic_ns()))

    def finish(self) -> None:
        """Evaluate the last snapshot, where there is evaluation beside training, unless the run was interrupted."""
        self._look_for_evaluations(last=self.outcome != "interrupted")

    def seconds(self, at_ns: int) -> float:
        """Seconds of training until this time."""
        first = self.first_step_ns
        return self.seconds_before + (0.0 if first is None else max(0, at_ns - first) / 1e9)

    def _counted(self) -> tuple[int, tuple[float, ...], dict[str, int]]:
        """Counts that go back when all roles restart: episodes, latest returns, and the steps of actors."""
        return self.episodes, tuple(self.returns), dict(self.actor_steps)

    def save_progress(self, at_ns: int) -> None:
        """Save the counts that continue when the run is resumed or all roles restart."""
        self._stored = self._counted()
        if self.folder is not None:
            self.folder.save_tally(Tally(self.seconds(at_ns), self.episodes, list(self.returns)))

    def result(self) -> Result:
        """Result of the run."""
        last = self.last
        weights = self.network.initialise(self.config.seed) if last is None else np.frombuffer(last.weights, "<f4").copy()
        counters: Counter[str] = Counter()
        for report in self.reports:
            if report.role.startswith("learner"):
                counters.update({name: int(report.counters[name]) for name in ("steps", "optimizer_steps")})
        return Result(
            config=self.config,
            describe=self.describe,
            outcome=self.outcome or "seconds",
            steps=counters.get("steps", last.steps if last else 0),
            version=counters.get("optimizer_steps", last.version if last else 0),
            seconds=self.seconds(max(last.at_ns if last else 0, self.reached_ns or 0)),
            mean_return=float(np.mean(self.returns)) if self.returns else None,
            episodes=self.episodes,
            weights=weights,
            reached_s=None if self.reached_ns is None else self.seconds(self.reached_ns),
            reached_steps=self.reached_steps,
            reports=self.reports,
            restarts=self.restarts,
            choice=self.choice,
        )
