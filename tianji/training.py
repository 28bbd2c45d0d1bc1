"""`train(config) -> Result`: the Python entry point."""

from __future__ import annotations

import importlib.util
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import msgspec
import numpy as np

from programs.cli import ConfigError, interrupt
from tianji.algorithms import kernels, networks
from tianji.algorithms.networks import Vector
from tianji.config import TrainConfig
from tianji.envs import EnvDescription, describe
from tianji.launch.job import Job, steps_of
from tianji.launch.node import Cluster
from tianji.launch.supervisor import Heard, Restarted
from tianji.messages import Done, Episodes, Report, Saved, Snapshot, Started
from tianji.policy import Policy, save_policy
from tianji.run_folder import RunFolder, Tally, replacing, state_path, stored_parameters, write_json
from tianji.topology import parameters
from tianji.worlds import lockstep
from tianji.worlds.assembly import Store

WINDOW = 100
"""Episodes in the training mean."""

Outcome = Literal["return", "steps", "seconds", "listener", "interrupted"]


@dataclass
class Result:
    """What a run did; of a run that was resumed, from its first beginning."""

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
    restarts: list[Restarted] = field(default_factory=list)
    """Processes that died and were started again, and why."""

    @property
    def policy(self) -> Policy:
        network = networks.build(self.config.network, self.describe.features, self.describe.actions)
        return Policy(network, self.weights)

    def summary(self) -> dict[str, Any]:
        """What stands in a run's `result.json`, next to its configuration."""
        return {
            "outcome": self.outcome,
            "steps": self.steps,
            "optimizer_steps": self.version,
            "seconds": self.seconds,
            "episodes": self.episodes,
            "mean_return": self.mean_return,
            "reached_s": self.reached_s,
            "reached_steps": self.reached_steps,
            "restarts": [{"role": r.role or "all roles", "cause": r.cause} for r in self.restarts],
        }


class Watch:
    """Listens to the roles, keeps what the result needs and says when the run should end.

    Parameters
    ----------
    folder
        gets policies and progress as they come.
    resume
        whether it counts on from what lies there.
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
        self.network = networks.build(config.network, describe.features, describe.actions)
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
        self.outcome: Outcome | None = None
        self.done = 0
        """Learners that have used up their share of the budget."""
        if resume and folder is not None:
            past = folder.read_tally()
            self.returns.extend(past.returns)
            self.episodes, self.seconds_before = past.episodes, past.seconds
        self._stored = self._counted()

    def __call__(self, message: Heard) -> str | None:
        asked = None if self.listener is None else self.listener(message)
        reason = self._heard(message)
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
                    self._save_policy(self.folder, message)
            case Saved(at_ns=at):
                self.save_progress(at)
            case Report():
                self.reports.append(message)
            case Restarted(role=role):
                self.restarts.append(message)
                if not role:
                    # All begin again where they were stored, account for themselves again, and play episodes again.
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
        """Moments, returns, and environment steps of all actors by then."""
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

    def _save_policy(self, folder: RunFolder, snapshot: Snapshot) -> None:
        policy = Policy(self.network, np.frombuffer(snapshot.weights, "<f4"))
        with replacing(folder.policy) as place:
            save_policy(place, policy, env=self.config.env, steps=str(snapshot.steps))

    def seconds(self, at_ns: int) -> float:
        """Of training, up to then."""
        first = self.first_step_ns
        return self.seconds_before + (0.0 if first is None else max(0, at_ns - first) / 1e9)

    def _counted(self) -> tuple[int, tuple[float, ...], dict[str, int]]:
        """Episodes, the latest returns, and the steps of actors: what goes back when all roles begin again."""
        return self.episodes, tuple(self.returns), dict(self.actor_steps)

    def save_progress(self, at_ns: int) -> None:
        """Keep what a run that is resumed, or whose roles all begin again, counts on from."""
        self._stored = self._counted()
        if self.folder is not None:
            self.folder.save_tally(Tally(self.seconds(at_ns), self.episodes, list(self.returns)))

    def result(self) -> Result:
        """What came of it."""
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
        )


def check(config: TrainConfig) -> EnvDescription:
    """Make the environment and the network once and see whether this can be trained here.

    Raises
    ------
    ConfigError
        for slots that hold no round, an environment that cannot be trained on, a network that cannot see it or that the
        algorithm or the kernel is not for, or a device or launcher that is not there.
    """
    config.check_chunks_under_way()
    description = describe(config.env, config.atari, config.simulator)
    kernels.check(config, networks.build(config.network, description.features, description.actions))
    if config.device == "cuda" and config.launcher == "local":
        import torch

        if not torch.cuda.is_available():
            raise ConfigError("device cuda: torch finds no CUDA device here; use --device cpu")
    if config.launcher == "ray" and importlib.util.find_spec("ray") is None:
        raise ConfigError("launcher ray: Ray is not installed; pip install 'tianji-bench[ray]' brings it")
    return description


def train(
    config: TrainConfig,
    listener: Callable[[Any], object] | None = None,
    *,
    out: Path | str | None = None,
    resume: bool = False,
    cluster: Cluster | None = None,
) -> Result:
    """Train, and return when a limit is reached or Ctrl-C is pressed.

    Parameters
    ----------
    listener
        is told everything that roles and their supervisor report, as it comes (see `tianji.messages`). The run ends when it
        answers with a string that says why.
    out
        the run's folder (see `tianji.run_folder`): a new one, or an empty one.
    resume
        goes on from what the run in `out` stored last. Environments begin new episodes.
    cluster
        nodes to spread the run over: emulated ones of this machine or, with launcher `ray`, as many of Ray's (with placement
        STRICT_SPREAD).

    Raises
    ------
    ConfigError
        see `check`; and for a folder that is not empty, or holds nothing to go on from.
    tianji.launch.supervisor.RoleFailed
        when a role's process fails more often than it may be started again.
    """
    description = check(config)
    folder = None if out is None else RunFolder(Path(out))
    if resume and folder is None:
        raise ConfigError("resume: there is no folder to go on from")
    if folder is not None and not resume:
        folder.create(config)
    if folder is not None and resume:
        _check_state(folder, config, description)
    watch = Watch(config, description, listener, folder, resume=resume)
    try:
        if config.world == "lockstep":
            _run_lockstep(config, description, watch, folder, resume=resume)
        else:
            stores = folder is not None and config.checkpoint_seconds is not None
            Job(config, description, folder.state if folder is not None and stores else None, resume, cluster).run(watch)
    except KeyboardInterrupt:
        watch.outcome = "interrupted"
    result = watch.result()
    if folder is not None:
        watch.save_progress(time.monotonic_ns())
        write_json(folder.result, {**result.summary(), "config": msgspec.to_builtins(config)})
    return result


def _check_state(folder: RunFolder, config: TrainConfig, description: EnvDescription) -> None:
    """That what is there can be gone on from: before anything is started."""
    for group in range(config.groups):
        path = state_path(folder.state, group)
        if stored_parameters(path) != parameters(config, description):
            raise ConfigError(f"{path}: is of another network; resume a run with the settings it began with")


def _run_lockstep(
    config: TrainConfig, description: EnvDescription, watch: Watch, folder: RunFolder | None, *, resume: bool
) -> None:
    store = None if folder is None or config.checkpoint_seconds is None else Store(str(folder.state.absolute()), resume)
    past = None
    if store is not None and resume:
        past = [steps_of(store, group) // config.actors for group in range(config.groups)]
    with _interrupts_noted() as interrupted:
        timed, reasons = _with_time_limit(watch, config.stop_seconds), list[str]()

        def heard(message: Heard) -> str | None:
            reason = timed(message) or ("interrupted" if interrupted() else None)
            reasons.extend([reason] if reason else [])
            return reason

        lockstep.run(config, description, heard, store=store, past=past)
        if reasons[:1] == ["interrupted"]:
            raise KeyboardInterrupt


@contextmanager
def _interrupts_noted() -> Iterator[Callable[[], bool]]:
    """In which a signal that would interrupt is noted instead, so that roles can end in order; a second one interrupts at once.

    Only where that can be: in the main thread.
    """
    noted: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(signum)

    before = {}
    if threading.current_thread() is threading.main_thread():
        # Any other handler is a caller's own, and stays.
        interrupting = (signal.default_int_handler, interrupt)
        handlers = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
        before = {signum: handler for signum, handler in handlers.items() if handler in interrupting}
    try:
        for signum in before:
            signal.signal(signum, note)
        yield lambda: bool(noted)
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _with_time_limit(watch: Watch, stop_seconds: float | None) -> Callable[[Any], str | None]:
    """The lockstep world has no launcher with a clock: look at it whenever something is reported."""
    if stop_seconds is None:
        return watch
    deadline = time.monotonic() + stop_seconds

    def timed(message: Heard) -> str | None:
        return watch(message) or ("seconds" if time.monotonic() >= deadline else None)

    return timed
