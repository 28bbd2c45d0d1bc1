"""What an actor has computed for it: it steps environments and chooses actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from tianji import seeds
from tianji.algorithms import dqn, networks
from tianji.algorithms.networks import Vector
from tianji.atari import is_atari
from tianji.config import TrainConfig
from tianji.envs import Ended, EnvDescription, Stacks, together
from tianji.layout import ChunkLayout
from tianji.messages import Episode
from tianji.roles.actor import Rollout, RolloutDone
from tianji.seeds import Stream
from tianji.telemetry import Account, Clock
from tianji.worlds.workers import Body, Views

TIMED = 8
"""Of so many steps the time of one is taken; it stands for the others."""


class Sampler:
    """Steps environments under the latest weights and writes what happens into a slot.

    Parameters
    ----------
    index
        of this actor. Every environment has seeds of its own, which follow from the run's seed and the environment's
        number over all actors: what happens does not depend on how environments are dealt out to actors.
    life, steps
        how many processes of this actor there were before, and the environment steps that they made: a successor's
        environments get seeds of their own, and its schedules go on.
    """

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
    ) -> None:
        self.network = networks.build(config.network, describe.features, describe.actions)
        self.account = Account()
        self.finished: list[Episode] = []
        self.steps = steps
        self._describe, self._layout, self._body, self._clock = describe, layout, body, clock
        self._horizon = config.fragment_steps
        self._explore = _explorer(config)
        self._flat = np.zeros(self.network.size, np.float32)
        self._blocks = self.network.views(self._flat)
        numbers = range(index * config.envs_per_actor, (index + 1) * config.envs_per_actor)
        past = [life, steps] if life or steps else []
        drawn = [seeds.sequence(config.seed, Stream.ENVIRONMENT, number, *past).generate_state(2) for number in numbers]
        self._noise = [np.random.default_rng(action_seed) for _, action_seed in drawn]
        simulator = config.simulator
        if simulator is not None and config.world == "lockstep":
            # There, time is a count of events, and actors take turns: nobody waits for a simulator.
            simulator = msgspec.structs.replace(simulator, step_seconds=0.0, reset_seconds=0.0)
        self._envs = together(config.env, numbers, config.atari, simulator)
        self._stacks = Stacks(self._envs.reset([int(env_seed) for env_seed, _ in drawn]), describe.stack)
        self._whole_games = is_atari(config.env)

    def weights(self) -> Vector:
        return self._flat

    def run(self, argument: Rollout) -> RolloutDone:
        """Fill the slot with T steps of every environment."""
        views = self._body(argument.slot)
        t_max, b, stacks = self._horizon, len(self._noise), self._stacks
        observation, actions, reward = views["observation"], views["action"], views["reward"]
        noise = np.stack([rng.random((t_max, 2)) for rng in self._noise], axis=1)
        history = stacks.stack - 1
        if history:
            observation[: history + 1] = stacks.seen.swapaxes(0, 1)
            views["age"][:] = stacks.age
        else:
            observation[0] = stacks.seen
        for name in ("terminated", "truncated"):
            views[name].fill(False)
        ragged = env_ns = infer_ns = timed = begun = decided = waited = 0
        waited_before = self._envs.waited_ns
        score, encode, explore, step = self.network.scores, self._describe.encode, self._explore, self._envs.step
        blocks, clock, steps, seen = self._blocks, self._clock, self.steps, stacks.seen
        for t, (latest, taken, got, drawn) in enumerate(zip(observation[history + 1 :], actions, reward, noise, strict=True)):
            # Where a step takes microseconds, looking at the clock is a part of it.
            timing = not t % TIMED
            if timing:
                begun = clock()
            action = explore(score(blocks, encode(seen)), drawn, steps, views, t)
            if timing:
                decided, waited = clock(), self._envs.waited_ns
                infer_ns += decided - begun
            ended = step(action, latest, got)
            if timing:
                env_ns += clock() - decided - (self._envs.waited_ns - waited)
                timed += 1
            taken[:] = action
            steps += b
            for episode in ended:
                # One that the environment calls both terminated and truncated has ended: nothing to bootstrap.
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
        self.steps = steps
        if not history:
            stacks.push(seen)
        # The slot, in which it lies, is given away.
        stacks.keep()
        self.account.busy_ns["infer"] += infer_ns * t_max // timed
        self.account.busy_ns["env"] += env_ns * t_max // timed
        if self._envs.waited_ns:
            self.account.wait_ns["simulator"] += self._envs.waited_ns - waited_before
        return RolloutDone(argument.slot, t_max * b, ragged, self._layout.size_bytes(ragged))

    def _tell(self, ended: Sequence[Ended], at_ns: int) -> None:
        """Note the episodes that ended with this step; of an Atari game the whole game, unclipped, when it is over."""
        if not self._whole_games:
            self.finished += [Episode(at_ns, e.episode_return, e.length, self.steps) for e in ended]
            return
        # A game can also end while the next episode is being started.
        for part in range(2):
            for game in (e.infos[part]["episode"] for e in ended if "episode" in e.infos[part]):
                self.finished.append(Episode(at_ns, float(game["r"]), int(game["l"]), self.steps))

    def take_finished(self) -> list[Episode]:
        """Episodes that ended since the last call."""
        finished, self.finished = self.finished, []
        return finished

    def close(self) -> None:
        self._envs.close()


Explore = Callable[[NDArray[np.float32], NDArray[np.float64], int, Views, int], NDArray[np.int64]]
"""(scores [B, A], noise [B, 2], steps of this actor, the chunk, t) -> actions [B]; it also writes what only it knows."""


def _explorer(config: TrainConfig) -> Explore:
    """How this algorithm's actors choose actions."""
    if config.algo != "dqn":

        def by_probability(scores: Vector, noise: NDArray[np.float64], steps: int, views: Views, t: int) -> NDArray[np.int64]:
            action, views["log_probability"][t] = choose(scores, noise[:, :1])
            return action

        return by_probability

    everybody = config.environments // config.envs_per_actor

    def mostly_greedy(scores: Vector, noise: NDArray[np.float64], steps: int, views: Views, t: int) -> NDArray[np.int64]:
        # Its own steps tell an actor how far all of them are: the schedule needs no message.
        return epsilon_greedy(scores, noise, dqn.epsilon(config.dqn, steps * everybody))

    return mostly_greedy


def epsilon_greedy(values: NDArray[np.float32], noise: NDArray[np.float64], epsilon: float) -> NDArray[np.int64]:
    """Greedy actions [B], or uniform ones with probability epsilon.

    Parameters
    ----------
    values : [B, A]
    noise : [B, 2]
        uniform on [0, 1): whether to explore, and where to.
    """
    greedy, anything = values.argmax(axis=1), (noise[:, 1] * values.shape[1]).astype(np.int64)
    action: NDArray[np.int64] = np.where(noise[:, 0] < epsilon, anything, greedy)
    return action


def choose(logits: NDArray[np.float32], noise: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Draw actions from softmax(logits) by inversion.

    Parameters
    ----------
    logits : [B, A]
    noise : [B, 1]
        uniform on [0, 1)

    Returns
    -------
    actions [B] and their log-probabilities [B]
    """
    # Along the first axis, and by the ufuncs themselves: reductions along a short last axis, and methods, take longer.
    columns = logits.T
    shifted = columns - np.maximum.reduce(columns)
    cumulative = np.add.accumulate(np.exp(shifted))
    total = cumulative[-1]
    action = np.add.reduce(cumulative[:-1] <= noise[:, 0] * total)
    return action, shifted[action, np.arange(len(action))] - np.log(total)
