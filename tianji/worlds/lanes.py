"""Sampler of a vector environment that resets in a step of its own (mode NEXT_STEP of Gymnasium).

In the step after an episode's end that lane's action is ignored and its row is only a reset, while the other lanes move on. So
each lane has its own row in the chunk. Reset rows are not recorded, and a lane that had one is a row behind. The actor steps on
until every lane has its T rows. Lanes that are ahead then take *surplus* steps, which are not recorded: their episodes go on
under the policy's own actions, and the next chunk begins where they are. So a chunk has exactly T x B real transitions, each
lane's in a row, as one of single environments has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from tianji.algorithms.base import Slices
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.environments.normalised import NormalisedLanes
from tianji.environments.place import Place
from tianji.environments.vectorised import NextStep
from tianji.layout import ChunkLayout, Views
from tianji.roles.actor import Rollout, RolloutDone
from tianji.telemetry import SLOW_STEP, Clock
from tianji.worlds.sampler import TIMED, Sampler
from tianji.worlds.workers import Body, Memory

SURPLUS = "surplus_steps"
"""Counter of an actor's steps that no chunk holds."""
SPARE = 16
"""Surplus steps for which noise is drawn at once."""


class LaneNoise:
    """Noise of the lanes in one fragment: what a sampler of single environments draws for its rows, and more when it is needed.

    Parameters
    ----------
    draw
        gives noise for some steps, [steps, B, W].
    steps
        T.
    """

    def __init__(self, draw: Callable[[int], NDArray[np.float64]], steps: int) -> None:
        drawn = draw(steps)
        self.rows = np.concatenate([drawn, drawn[:1]])
        """[T + 1, B, W]. The last row is for surplus steps, and must be renewed before each of them."""
        self._draw, self._spare, self._used = draw, drawn[:0], 0

    def renew(self) -> None:
        """Renew the last row."""
        if not self._used % SPARE:
            self._spare = self._draw(SPARE)
        self.rows[-1] = self._spare[self._used % SPARE]
        self._used += 1


class LaneSampler(Sampler):
    """Sampler whose lanes may be at different rows; see the module."""

    lags = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._surplus = 0

    def progress(self) -> Mapping[str, float]:
        """Its environment steps and its surplus steps."""
        return {**super().progress(), SURPLUS: float(self._surplus)}

    def work(self, argument: Rollout) -> Slices[RolloutDone]:
        """Fill the slot with T steps of every lane, or fewer if it is cut."""
        self._between = False
        self._cut, self._filled, self._renewals, told = False, 0, [], len(self.finished)
        views, stacks, b = self._body(argument.slot), self._stacks, len(self._noise)
        if self._counted is not None:
            renewed = self._counted.begin()
            if renewed is not None and stacks.stack == 1:
                stacks.push(renewed)
        t_max = 1 if argument.brief else self._horizon
        history, lanes = stacks.stack - 1, np.arange(b)
        observation = views["observation"]
        observation[: history + 1] = stacks.seen.swapaxes(0, 1) if history else stacks.seen
        if history:
            views["age"][:] = stacks.age
        for name in ("terminated", "truncated"):
            views[name].fill(False)
        # Fields that only the explorer knows, for one step of all lanes.
        assessed = {name: np.zeros((1, b), np.float32) for name in ("log_probability",) if name in views}
        latest, got = np.empty_like(observation[0]), np.zeros(b, np.float32)
        noise = LaneNoise(self._drawn, t_max)
        envs = cast("NextStep | NormalisedLanes", self._envs)
        encode, explore, blocks, clock, begun_at = self._describe.encode, self._explore, self._blocks, self._clock, self.steps
        rows = np.zeros(b, np.int64)
        """Next row of each lane."""
        extra = np.zeros(b, np.int64)
        """Surplus steps of each lane."""
        finals: dict[tuple[int, int], Any] = {}
        """Last observations of truncated episodes, by row and lane."""
        seen, least, most, stepped, slow, infer_ns, env_ns = stacks.seen, 0, 0, 0, False, 0, 0
        while least < t_max:
            # A fragment without a step would count as dropped.
            if least and (slow or not stepped % TIMED):
                # Lanes that are ahead hold some later rows under older weights, which does no harm.
                self.steps, self._filled = begun_at + least * b, most
                yield
                if self._cut:
                    break
            began = clock()
            ignored = envs.pending
            waiting = bool(ignored.any())
            recording = ~ignored & (rows < t_max) if waiting else rows < t_max
            if most == t_max:
                noise.renew()
                extra += ~ignored & (rows == t_max)
            action = explore(blocks, encode(seen), noise.rows[rows, lanes], begun_at + least * b, cast(Views, assessed), 0)
            decided = clock()
            ended = envs.step(action, latest, got)
            done = clock()
            stepped += 1
            infer_ns, env_ns = infer_ns + decided - began, env_ns + done - decided
            if slow := done - began > self._slow_ns:
                self.account.record(SLOW_STEP, done - began)
            if history:
                stacks.push(latest, ignored)
            seen = stacks.seen if history else latest
            acted = np.flatnonzero(recording)
            at = rows[acted]
            views["action"][at, acted], views["reward"][at, acted] = action[acted], got[acted]
            for name, values in assessed.items():
                views[name][at, acted] = values[0, acted]
            observation[history + at + 1, acted] = latest[acted]
            if waiting:
                # The first observation of an episode replaces the last one of the episode before, which no row acts on.
                fresh = np.flatnonzero(ignored & (extra == 0))
                observation[history + rows[fresh], fresh] = latest[fresh]
                if history and len(began_here := fresh[rows[fresh] == 0]):
                    observation[: history + 1, began_here] = stacks.seen[began_here].swapaxes(0, 1)
                    views["age"][began_here] = 0
            for episode in ended:
                lane = episode.environment
                if recording[lane]:
                    # A step that is both terminated and truncated counts as terminated, without bootstrapping.
                    views["terminated" if episode.terminated else "truncated"][rows[lane], lane] = True
                    if not episode.terminated:
                        finals[int(rows[lane]), lane] = episode.observation
            rows += recording
            least, most = int(rows.min()), int(rows.max())
            if ended:
                self.steps = begun_at + least * b
                self._tell(ended, clock())
        # No row acts on an episode's last observation. It may be one that no network should see.
        unseen = envs.pending & (rows == least) & (extra == 0)
        observation[history + least, unseen] = observation[history + least - 1, unseen]
        self._filled = filled = least
        self.steps = begun_at + filled * b
        self._renewals = [(row, version) for row, version in self._renewals if row < filled]
        if not history:
            stacks.push(seen)
        # A copy, because the array belongs to this call.
        stacks.keep()
        if self._counted is not None:
            self._counted.write(views["statistics"], filled)
        kept = sorted(place for place in finals if place[0] < filled)
        for number, place in enumerate(kept):
            views["final_observation"][number] = finals[place]
        lead = extra + rows - filled
        self._surplus += int(lead.sum())
        if (fault := self._fault(views, filled, len(kept))) is not None:
            return self._spoilt(argument, fault, told)
        self._in_a_row, self._between = 0, True
        self.account.busy_ns["infer"] += infer_ns
        self.account.busy_ns["env"] += env_ns
        self.completed = "fragment" if filled == self._horizon else None
        result = self._done(argument, len(kept))
        self._goes_on = not lead.any()
        return result


def sampler(
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
) -> Sampler:
    """Make the sampler that an environment needs; the parameters are those of `Sampler`."""
    kind = LaneSampler if describe.autoreset == AutoresetMode.NEXT_STEP.value else Sampler
    return kind(config, describe, layout, body, index, clock, life=life, steps=steps, place=place, memory=memory)
