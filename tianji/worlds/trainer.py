"""Worker of a learner: does optimizer steps on chunks, and adopts means."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tianji.algorithms import algorithm
from tianji.algorithms.base import FromReplay, OneStep, Slices
from tianji.algorithms.flat import Vector
from tianji.algorithms.normalisation import Statistics
from tianji.algorithms.replay import Experience
from tianji.algorithms.state import State
from tianji.averaging import Stamps, message_size, pack, stamps_of, statistics_of
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.faults import NotFinite
from tianji.layout import shortened
from tianji.messages import ChunkHeader
from tianji.roles.updating import Adopt, Adopted, Update, UpdateDone
from tianji.run_folder import write_state
from tianji.topology import acting_parameters
from tianji.worlds.workers import Body, ModelWorker, Views

PAUSE_SECONDS = 0.0025
"""Longest slice of a wait. Messages are read between slices."""


class Trainer(ModelWorker):
    """Trains on the chunks that the learner selects.

    With a Root it also keeps a *reference*: the model that was pushed last, or the mean that was adopted last. When a mean
    arrives, the difference between the weights and the reference is kept on top of it.

    Parameters
    ----------
    store
        file of the learner's state.
    group
        group of its learner.
    """

    def __init__(
        self,
        config: TrainConfig,
        describe: EnvDescription,
        body: Body,
        store: Path | None = None,
        group: int = 0,
    ) -> None:
        self.algorithm = algorithm.make_algorithm(config, describe, group)
        self._acting = acting_parameters(config, describe)
        super().__init__()
        self._body, self._store = body, store
        self._keeps_replay = config.checkpoint_replay
        self._environments, self._reuse = config.envs_per_actor, config.reuse
        self._drawn = round(config.reuse * config.round_steps) if self.algorithm.replays else 0
        # In lockstep, time is a count of events.
        self._least_seconds = 0.0 if config.world == "lockstep" else config.update_seconds
        self._reference = self.weights().copy()
        self._statistics = Statistics.of(config, describe)
        size = message_size(len(self._reference), len(self._statistics.own) if self._statistics else 0)
        self._inbox, self._outbox = np.zeros(size, np.float32), np.zeros(size, np.float32)

    def weights(self) -> Vector:
        return self.algorithm.updater.weights()

    def published(self) -> Vector:
        return self.weights()[: self._acting]

    def progress(self) -> Mapping[str, float]:
        return {}

    def metrics(self) -> Mapping[str, float]:
        return self.algorithm.metrics

    def work(self, argument: Update | Adopt) -> Slices[UpdateDone | Adopted]:
        if isinstance(argument, Adopt):
            self.completed = "adoption"
            return self._adopt()
        began = time.monotonic()
        done = yield from self._update(argument)
        # A round whose gradients accumulate is several pieces of work.
        self.completed = "round" if done.optimizer_steps and argument.share is None else None
        if self._least_seconds and done.rows:
            share = 1.0 if argument.share is None else argument.share
            yield from _until(began + share * self._least_seconds)
        return done

    def _update(self, update: Update) -> Slices[UpdateDone]:
        steps = 0
        if isinstance(self.algorithm, FromReplay):
            self.algorithm.insert([Experience(self._views(c), c.producer, c.sequence, c.goes_on) for c in update.chunks])
            if update.train:
                steps = yield from self.algorithm.training(update.steps + sum(chunk.count for chunk in update.chunks))
        else:
            views = [self._views(chunk) for chunk in update.chunks]
            if self._statistics is not None:
                views = self._statistics.taken(views)
            if update.share is not None and isinstance(self.algorithm, OneStep):
                steps = yield from self.algorithm.part(views, update.steps, update.share, last=update.train)
            else:
                steps = yield from self.algorithm.updates(views, update.steps, stale=update.stale)
        if steps and self._statistics is not None:
            # After training: until then the statistics are those under which the actors chose their actions.
            self.algorithm.updater.assign(self._statistics.blocks())
        if steps and not self.algorithm.updater.sound():
            # Checked before the weights are sent or stored.
            now = update.steps + sum(chunk.count for chunk in update.chunks)
            raise NotFinite(
                f"a gradient or the weights are not finite after the round that ended at {now:,} environment steps: a loss "
                "overflowed; lower the learning rate, or scale rewards and observations"
            )
        return UpdateDone(update.chunks, steps, self._rows(update.chunks) if steps or update.share else 0)

    def _views(self, chunk: ChunkHeader) -> Views:
        return shortened(self._body(chunk.slot), chunk.count // self._environments)

    def _rows(self, chunks: Sequence[ChunkHeader]) -> int:
        """Rows that a round trains on: a multiple of its chunks' rows or, with a replay, a fixed number."""
        return self._drawn or round(self._reuse * sum(chunk.count for chunk in chunks))

    def _adopt(self) -> Adopted:
        weights = self.weights()
        mean = self._inbox[: len(weights)].copy()
        # Without steps since the push the mean is copied, so that groups that wait for it agree bit for bit. A mean that equals
        # the reference, from a single group, changes no bit either.
        ours = np.array_equal(weights, self._reference)
        self.algorithm.updater.load(mean if ours else weights + (mean - self._reference))
        self._reference = mean
        if self._statistics is not None:
            self._statistics.adopt(statistics_of(self._inbox, len(self._statistics.own)))
            self.algorithm.updater.assign(self._statistics.blocks())
        return Adopted()

    def save(self, role: Mapping[str, Any]) -> None:
        """Store the states of the algorithm and the role. The file is replaced atomically."""
        if self._store is None:
            raise RuntimeError("there is no place to store a state")
        state = self.algorithm.state(replay=self._keeps_replay)
        if self._statistics is not None:
            state = State(state.arrays | self._statistics.state(), state.values)
        values = {"algorithm": state.values, "learner": dict(role), "replay": self._keeps_replay}
        write_state(self._store, State(state.arrays, values))

    def restore(self, state: State) -> None:
        """Continue from the state of another process. `ValueError` if its sizes differ."""
        self.algorithm.restore(state)
        if self._statistics is not None:
            self._statistics.restore(state.arrays)
        self._reference = self.weights().copy()

    def inbox(self, port: str) -> Vector:
        return self._inbox

    def stamps(self, port: str) -> Stamps:
        return stamps_of(self._inbox)

    def push(self, stamps: Stamps) -> Vector:
        self._reference = self.weights().copy()
        pack(self._outbox, self._reference, stamps, None if self._statistics is None else self._statistics.push())
        return self._outbox


def _until(end: float) -> Iterator[None]:
    """Wait in slices until this time of the monotonic clock, in seconds."""
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, PAUSE_SECONDS))
        yield
