"""What a learner has computed for it: optimizer steps on the chunks that it names, and the adoption of means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tianji.algorithms import algorithm
from tianji.algorithms.algorithm import Experience
from tianji.algorithms.networks import Vector
from tianji.algorithms.state import State
from tianji.averaging import Stamp, message_size, pack, stamps_of
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.roles.training import Adopt, Adopted, Update, UpdateDone
from tianji.run_folder import write_state
from tianji.telemetry import Account, Clock
from tianji.worlds.workers import Body


class Trainer:
    """Trains on the chunks that the learner names.

    Where there is a Root it also keeps the *reference*, the part of the weights that the latest mean accounts for: the
    model as it was pushed, then each mean as it was adopted. What was learned on top of it is kept when a mean comes.

    Parameters
    ----------
    store
        the file that its state goes to.
    group
        whose learner it works for.
    """

    def __init__(
        self,
        config: TrainConfig,
        describe: EnvDescription,
        body: Body,
        clock: Clock,
        store: Path | None = None,
        group: int = 0,
    ) -> None:
        self.algorithm = algorithm.make(config, describe, group)
        self.account = Account()
        self._body, self._clock, self._store = body, clock, store
        self._keeps_replay = config.checkpoint_replay
        self._rows = round(config.reuse * config.round_steps)
        self._reference = self.weights().copy()
        size = message_size(len(self._reference), config.groups)
        self._inbox, self._outbox = np.zeros(size, np.float32), np.zeros(size, np.float32)

    def weights(self) -> Vector:
        return self.algorithm.kernel.weights()

    def run(self, argument: Update | Adopt) -> UpdateDone | Adopted:
        start = self._clock()
        done = self._adopt() if isinstance(argument, Adopt) else self._update(argument)
        self.account.busy_ns["update"] += self._clock() - start
        return done

    def _update(self, update: Update) -> UpdateDone:
        steps = 0
        if self.algorithm.reuses:
            self.algorithm.insert([Experience(self._body(c.slot), c.producer, c.sequence) for c in update.chunks])
            if update.train:
                steps = self.algorithm.train(update.steps + sum(chunk.count for chunk in update.chunks))
        else:
            views = [self._body(chunk.slot) for chunk in update.chunks]
            steps = self.algorithm.update(views, update.steps, stale=update.stale)
        return UpdateDone(update.chunks, steps, self._rows if steps else 0)

    def _adopt(self) -> Adopted:
        weights = self.weights()
        mean = self._inbox[: len(weights)].copy()
        # Without steps since the push the mean is taken as it is: groups that wait for it then agree to the last bit. And a
        # mean that is the reference itself, of one group alone, changes no bit either.
        ours = np.array_equal(weights, self._reference)
        self.algorithm.kernel.load(mean if ours else weights + (mean - self._reference))
        self._reference = mean
        return Adopted()

    def save(self, role: Mapping[str, Any]) -> None:
        """Store the algorithm's state, and beside it its role's; the file before is replaced when all is on the disk."""
        if self._store is None:
            raise RuntimeError("there is no place to store a state")
        state = self.algorithm.state(replay=self._keeps_replay)
        values = {"algorithm": state.values, "learner": dict(role), "replay": self._keeps_replay}
        write_state(self._store, State(state.arrays, values))

    def restore(self, state: State) -> None:
        """Go on where the algorithm of another process was; `ValueError` where that had other sizes."""
        self.algorithm.restore(state)
        self._reference = self.weights().copy()

    def inbox(self, port: str) -> Vector:
        return self._inbox

    def stamps(self, port: str) -> Sequence[Stamp]:
        return stamps_of(self._inbox, len(self._reference))

    def push(self, stamps: Sequence[Stamp]) -> Vector:
        self._reference = self.weights().copy()
        pack(self._outbox, self._reference, stamps)
        return self._outbox

    def close(self) -> None:
        """Nothing to free."""
