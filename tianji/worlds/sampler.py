"""Worker of an actor: steps environments and chooses actions."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tianji import seeds
from tianji.algorithms import algorithm, networks
from tianji.algorithms.base import Slices
from tianji.algorithms.flat import Vector
from tianji.algorithms.normalisation import Sizes
from tianji.config import TrainConfig
from tianji.environments.atari import is_atari
from tianji.environments.description import EnvDescription
from tianji.environments.normalised import Normalised, NormalisedLanes
from tianji.environments.place import Place
from tianji.environments.state import plain, restored
from tianji.environments.vector import Ended, Environments, Stacks, together
from tianji.environments.vectorised import NextStep, Vectorised, vectorised
from tianji.faults import NotFinite, Unknown
from tianji.layout import ChunkLayout, Views
from tianji.messages import ACTOR_STEPS, Episode
from tianji.roles.actor import Rollout, RolloutDone
from tianji.seeds import Stream
from tianji.telemetry import SLOW_STEP, Clock
from tianji.worlds.workers import Body, Memory, Worker

DROPPED_IN_A_ROW = 10
"""Number of fragments in a row with values that are not finite after which the run ends."""
TIMED = 8
"""One step out of this many is timed, and represents the others. Where steps take long on average, each one is timed."""
SLOW_NS = 1_000_000
"""A step that takes longer is slow: the actor then looks for messages after every step, and not after every `TIMED`."""


class Sampler(Worker):
    """Steps environments with the latest weights and writes transitions into a slot.

    Parameters
    ----------
    index
        number of this actor. The seeds of an environment follow from the run's seed and its number over all actors. So
        episodes do not depend on how environments are distributed over actors.
    life, steps
        number of earlier processes of this actor, and their environment steps. A restarted actor's environments get other
        seeds, and its schedules continue.
    place
        where it notes what it does with its environments; None: nowhere.
    memory
        state of another process's sampler (`remember`), from which it goes on with the same episodes.
    """

    cause = None
    lags: ClassVar[bool] = False
    """Whether its lanes may be at different rows; see `tianji.worlds.lanes`."""

    def __init__(
        self,
        config: TrainConfig,
        describe: EnvDescription,
        layout: ChunkLayout,
        body: Body,
        index: int,
        clock: Clock,
        *,
        life: int = 0,
        steps: int = 0,
        place: Place | None = None,
        memory: Memory | None = None,
    ) -> None:
        super().__init__()
        self.network = networks.of(config, describe)
        self.network.load()
        self.finished: list[Episode] = []
        self.steps = steps
        self._describe, self._layout, self._body, self._clock = describe, layout, body, clock
        self._horizon = config.fragment_steps
        self._explore = algorithm.explorer(config, self.network)
        self._latent = getattr(self.network, "latent_width", 0)
        self._flat = np.zeros(self.network.acting, np.float32)
        self._blocks = self.network.acting_views(self._flat)
        numbers = range(index * config.envs_per_actor, (index + 1) * config.envs_per_actor)
        past = [life, steps] if life or steps else []
        drawn = [seeds.sequence(config.seed, Stream.ENVIRONMENT, number, *past).generate_state(2) for number in numbers]
        self._noise = [np.random.default_rng(action_seed) for _, action_seed in drawn]
        simulator = config.simulator
        if simulator is not None and config.world == "lockstep":
            # In lockstep, time is a count of events and actors take turns, so a simulator's delays are skipped.
            simulator = msgspec.structs.replace(simulator, step_seconds=0.0, reset_seconds=0.0)
        self._envs: Environments | Vectorised | Normalised
        if describe.autoreset:
            vector = config.env, numbers, config.atari, place, config.environment, describe.actions
            self._envs = vectorised(*vector, describe.autoreset)
        else:
            self._envs = together(config.env, numbers, config.atari, simulator, place, config.environment, describe.actions)
        if isinstance(self._envs, NextStep) != self.lags:
            raise TypeError(f"environment {config.env} resets at {describe.autoreset}: use tianji.worlds.lanes.sampler")
        self._counted: Normalised | None = None
        if Sizes(config.normalise, describe).all:
            normalise = partial(self.network.normalise, self._blocks) if config.normalise.observations else None
            gamma, rewards = config.hyperparameters.gamma, config.normalise.rewards
            kind = NormalisedLanes if self.lags else Normalised
            self._counted = kind(self._envs, describe, normalise, gamma, self._horizon, len(numbers), rewards=rewards)
            self._envs = self._counted
        self._stacks = Stacks(self._envs.reset([int(env_seed) for env_seed, _ in drawn]), describe.stack)
        self._whole_games = is_atari(config.env)
        self._env, self._first = config.env, numbers.start
        self._ends_with_faults, self._in_a_row = config.not_finite == "end", 0
        # In lockstep, what happens when must not depend on a clock.
        self._slow_ns = sys.maxsize if config.world == "lockstep" else SLOW_NS
        self._mean_step_ns = 0
        """Mean step of the fragment before."""
        self._cut = False
        self._goes_on = False
        """Whether the next fragment begins where the last one that was sent ended."""
        self._begun: Memory | None = None
        """State at the start of the current or last fragment."""
        self._between = True
        """Whether no fragment is under way."""
        self._filled = 0
        """Steps of the current fragment so far."""
        self._renewals: list[tuple[int, int]] = []
        if memory is not None:
            self._recall(memory)

    def weights(self) -> Vector:
        return self._flat

    def progress(self) -> Mapping[str, float]:
        """Its environment steps, with those of its predecessors."""
        return {ACTOR_STEPS: float(self.steps)}

    def cut(self) -> None:
        self._cut = True

    def renewed(self, version: int) -> None:
        self._renewals.append((self._filled, version))

    def work(self, argument: Rollout) -> Slices[RolloutDone]:
        """Fill the slot with T steps of every environment, or fewer if it is cut, in slices of `TIMED` steps."""
        if self.remembers:
            try:
                self._begun = self._remember()
            except Unknown:
                self.remembers = False  # `after` says why.
        self._between = False
        self._cut, self._filled, self._renewals, told = False, 0, [], len(self.finished)
        views = self._body(argument.slot)
        if self._counted is not None:
            renewed = self._counted.begin()
            if renewed is not None and self._stacks.stack == 1:
                self._stacks.push(renewed)
        b, stacks = len(self._noise), self._stacks
        t_max = 1 if argument.brief else self._horizon
        observation, actions, reward = views["observation"], views["action"][:t_max], views["reward"][:t_max]
        following = observation[stacks.stack : stacks.stack + t_max]
        noise = self._drawn(t_max)
        history = stacks.stack - 1
        if history:
            observation[: history + 1] = stacks.seen.swapaxes(0, 1)
            views["age"][:] = stacks.age
        else:
            observation[0] = stacks.seen
        for name in ("terminated", "truncated"):
            views[name].fill(False)
        ragged = env_ns = infer_ns = spent_ns = timed = begun = decided = waited = 0
        waited_before, slow = self._envs.waited_ns, False
        # If a step takes microseconds, reading the clock would be a large part of it.
        every = 1 if TIMED * self._mean_step_ns > self._slow_ns else TIMED
        encode, explore, step = self._describe.encode, self._explore, self._envs.step
        blocks, clock, steps, seen = self._blocks, self._clock, self.steps, stacks.seen
        for t, (latest, taken, got, drawn) in enumerate(zip(following, actions, reward, noise, strict=True)):
            timing = not t % every
            if t and (slow or not t % TIMED):
                self.steps, self._filled = steps, t
                yield
                if self._cut:
                    break
            if timing:
                begun = clock()
            action = explore(blocks, encode(seen), drawn, steps, views, t)
            if timing:
                decided, waited = clock(), self._envs.waited_ns
                infer_ns += decided - begun
            ended = step(action, latest, got)
            if timing:
                stepped = clock()
                env_ns += stepped - decided - (self._envs.waited_ns - waited)
                took_ns = stepped - begun
                spent_ns += took_ns
                timed += 1
                if slow := took_ns > self._slow_ns:
                    self.account.record(SLOW_STEP, took_ns, every)
            taken[:] = action
            steps += b
            for episode in ended:
                # A step that is both terminated and truncated counts as terminated, without bootstrapping.
                views["terminated" if episode.terminated else "truncated"][t, episode.environment] = True
                if not episode.terminated:
                    views["final_observation"][ragged] = episode.observation
                    ragged += 1
            if ended:
                self.steps = steps
                self._tell(ended, clock())
            if history:
                stacks.push(latest, [episode.environment for episode in ended] if ended else None)
                seen = stacks.seen
            else:
                seen = latest
        else:
            self._filled = t_max
        self.steps = steps
        if not history:
            stacks.push(seen)
        # A copy, because the slot is handed over.
        stacks.keep()
        filled = self._filled
        if self._counted is not None:
            self._counted.write(views["statistics"], filled)
        if (fault := self._fault(views, filled, ragged)) is not None:
            return self._spoilt(argument, fault, told)
        self._in_a_row, self._between = 0, True
        self._mean_step_ns = spent_ns // timed
        self.account.busy_ns["infer"] += infer_ns * filled // timed
        self.account.busy_ns["env"] += env_ns * filled // timed
        self.completed = "fragment" if filled == self._horizon else None
        if self._envs.waited_ns:
            waited = self._envs.waited_ns - waited_before
            self.account.wait_ns["simulator"] += waited
            if self.completed is not None:
                self.account.record("simulator", waited)
        return self._done(argument, ragged)

    def _drawn(self, steps: int) -> NDArray[np.float64]:
        """Noise of each environment's own generator, [steps, B, W]."""
        return np.stack([self._describe.actions.noise(rng, steps, self._latent) for rng in self._noise], axis=1)

    def _done(self, rollout: Rollout, ragged: int) -> RolloutDone:
        """The result of a fragment that is complete or was cut."""
        goes_on, self._goes_on = self._goes_on, True
        count, size = self._filled * len(self._noise), self._layout.size_bytes(ragged)
        return RolloutDone(rollout.slot, count, ragged, size, tuple(self._renewals), goes_on)

    def _fault(self, views: Views, filled: int, ragged: int) -> str | None:
        """Description of a value in a fragment that is not finite: environment, step and value. None if there is none."""
        history = self._stacks.stack - 1
        if self._counted is not None and not np.isfinite(views["statistics"]).all():
            # Clipping hides an infinite feature from the observations below.
            return f"environment {self._env}: before step {self.steps} of its actor an observation or a reward is not finite"
        for name, array in (
            ("reward", views["reward"][:filled]),
            ("observation", views["observation"][history : history + filled + 1]),
            ("last observation", views["final_observation"][:ragged]),
        ):
            if array.dtype.kind != "f" or np.isfinite(array).all():
                continue
            first = tuple(np.argwhere(~np.isfinite(array))[0])
            value = f"its {name} is {array[first]:g}"
            if name == "last observation":
                return f"environment {self._env}: before step {self.steps} of its actor {value}"
            # An observation is stored one row after the step that led to it.
            step = self.steps // len(self._noise) - filled + int(first[0]) + (name == "reward")
            return f"environment {self._env}, number {self._first + int(first[1])}: after {step} steps {value}"
        return None

    def _spoilt(self, rollout: Rollout, fault: str, told: int) -> RolloutDone:
        """Handle values that are not finite: end the run, or drop the fragment and reset the environments.

        Its episodes are dropped too; the first `told` episodes are older and stay.
        """
        self._in_a_row += 1
        self.completed, self._goes_on = None, False
        if self._ends_with_faults or self._in_a_row > DROPPED_IN_A_ROW:
            raise NotFinite(fault)
        del self.finished[told:]
        self._stacks = Stacks(self._envs.reset([int(rng.integers(2**31)) for rng in self._noise]), self._describe.stack)
        self._between = True
        return RolloutDone(rollout.slot, 0, 0, 0)

    def after(self, steps: int) -> Memory | None:
        if not self.remembers or (self._between and self.steps == steps):
            return self._remember()
        return self._begun if self._begun is not None and self._begun["steps"] == steps else None

    def _remember(self) -> Memory:
        own = {"steps": self.steps, "goes_on": self._goes_on, "in_a_row": self._in_a_row, "noise": plain(self._noise)}
        return {**own, "stacks": self._stacks.remember(), "envs": self._envs.remember()}

    def _recall(self, memory: Memory) -> None:
        try:
            self._noise = restored(memory["noise"])
            self._stacks.recall(memory["stacks"])
            self._envs.recall(memory["envs"])
            self.steps, self._goes_on, self._in_a_row = memory["steps"], memory["goes_on"], memory["in_a_row"]
        except (KeyError, TypeError, ValueError) as error:
            raise Unknown(f"{type(error).__name__}: {error}") from None

    def _tell(self, ended: Sequence[Ended], at_ns: int) -> None:
        """Record the episodes that ended with this step. An Atari game is recorded whole and unclipped when it is over."""
        if not self._whole_games:
            self.finished += [Episode(at_ns, e.episode_return, e.length, self.steps) for e in ended]
            return
        # A game can also end during the reset.
        for part in range(2):
            for game in (e.infos[part]["episode"] for e in ended if "episode" in e.infos[part]):
                self.finished.append(Episode(at_ns, float(game["r"]), int(game["l"]), self.steps))

    def take_finished(self) -> list[Episode]:
        finished, self.finished = self.finished, []
        return finished

    def close(self) -> None:
        self._envs.close()
