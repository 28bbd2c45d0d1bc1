"""Workers of the simulated world: they say how long work takes, and do it only if they hold a real worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.base import Slices, complete
from tianji.algorithms.flat import Vector
from tianji.averaging import Stamps
from tianji.config import TrainConfig
from tianji.layout import ChunkLayout
from tianji.messages import ACTOR_STEPS, Episode
from tianji.roles.actor import Rollout, RolloutDone
from tianji.roles.root import Average, Averaged
from tianji.roles.updating import Adopt, Adopted, Update, UpdateDone
from tianji.simulation.machines import QUANTUM_NS
from tianji.worlds.sampler import SLOW_NS, TIMED
from tianji.worlds.workers import ModelWorker, Worker


class Times(Protocol):
    """How long work takes, in seconds of a core that nobody else uses. Each call may draw from a distribution."""

    def fragment(self, actor: int) -> tuple[float, float]:
        """Of a whole fragment of an actor (numbered over all groups): its computation, and its wait for the simulator."""

    def round(self, group: int, samples: int) -> float:
        """Of a learner's round of updates on so many samples. The wait that a configuration states comes on top."""

    def mean(self, models: int) -> float:
        """Of a Root's mean of so many models, or of a learner or a Root that takes over one (`models` is 1)."""


class Passage(Protocol):
    """The process of a worker, whose clock its work moves on."""

    @property
    def rationed(self) -> bool:
        """Whether it has a quota of computation in each period, so that it matters when it computes."""

    def compute(self, seconds: float, *, deaf: bool = False) -> Iterator[int]:
        """Compute for so long, in pieces. The iterator gives the length of each in nanoseconds when it is over.

        A deaf worker's role is not told of what arrives meanwhile.
        """

    def sleep(self, seconds: float, *, deaf: bool = False) -> int:
        """Wait for so long without using a core, and return the nanoseconds."""


class PretendedSampler(Worker):
    """Worker of an actor."""

    cause = None

    def __init__(
        self,
        process: Passage,
        times: Times,
        config: TrainConfig,
        layout: ChunkLayout,
        index: int,
        real: Worker | None,
    ) -> None:
        super().__init__()
        self._process, self._times, self._layout, self._index, self._real = process, times, layout, index, real
        self._horizon, self._environments = config.fragment_steps, config.envs_per_actor
        # One piece of computation and one wait for all steps, which is quick; a quota would not last for the piece.
        self._whole = real is None and config.rule.when_weights_wait == "finish" and not process.rationed
        self._steps, self._filled = 0, 0
        self._cut = False
        self._drawn, self._left = (0.0, 0.0), 0
        """Seconds of the fragment that is drawn, and its steps that are left."""
        self._renewals: list[tuple[int, int]] = []

    def weights(self) -> Vector:
        return np.zeros(0, np.float32) if self._real is None else self._real.weights()

    def progress(self) -> Mapping[str, float]:
        return {ACTOR_STEPS: float(self._steps)}

    def cut(self) -> None:
        self._cut = True
        if self._real is not None:
            self._real.cut()

    def renewed(self, version: int) -> None:
        self._renewals.append((self._filled, version))
        if self._real is not None:
            self._real.renewed(version)

    def take_finished(self) -> Sequence[Episode]:
        return () if self._real is None else self._real.take_finished()

    def work(self, argument: Rollout) -> Slices[RolloutDone]:
        """Let the time of a fragment pass, in slices of as many steps as the real worker's.

        A delay lasts for as many steps as a fragment has. So after a cut the simulator goes on with the one that it had.
        """
        self._cut, self._filled, self._renewals = False, 0, []
        most = 1 if argument.brief else self._horizon
        slices = None if self._real is None else self._real.work(argument)
        while self._filled < most and not self._cut:
            if not self._left:
                self._drawn, self._left = self._times.fragment(self._index), self._horizon
            compute_s, wait_s = self._drawn
            step_ns = (compute_s + wait_s) / self._horizon * 1e9
            slow = step_ns > SLOW_NS and self._real is None
            # The real worker gives way after every slow step, and its host looks for messages after some milliseconds.
            size = most if self._whole else max(1, int(QUANTUM_NS / step_ns)) if slow else TIMED
            steps = min(size, most - self._filled, self._left)
            for took in self._process.compute(compute_s * steps / self._horizon, deaf=self._whole):
                self.account.busy_ns["env"] += took
                yield
            if wait_s:
                self.account.wait_ns["simulator"] += self._process.sleep(wait_s * steps / self._horizon, deaf=self._whole)
                yield
            self._filled += steps
            self._left -= steps
            if slices is not None and self._filled < most and not self._cut:
                next(slices)
        if not self._cut:
            self._left = 0
        if slices is not None:
            return self._counted(complete(slices))
        samples = self._filled * self._environments
        return self._counted(RolloutDone(argument.slot, samples, 0, self._layout.size_bytes(0), tuple(self._renewals)))

    def _counted(self, done: RolloutDone) -> RolloutDone:
        self._steps += done.count
        return done

    def close(self) -> None:
        if self._real is not None:
            self._real.close()


class PretendedModels(ModelWorker):
    """Base of workers that exchange models. Without a real worker, a model is a box that holds its stamps."""

    def __init__(self, process: Passage, times: Times, ports: Sequence[str], real: ModelWorker | None) -> None:
        super().__init__()
        self._process, self._times, self._real = process, times, real
        self._inboxes: dict[str, NDArray[Any]] = {port: np.empty(1, object) for port in ports}

    def weights(self) -> Vector:
        return np.zeros(0, np.float32) if self._real is None else self._real.weights()

    def published(self) -> Vector:
        return self.weights() if self._real is None else self._real.published()

    def inbox(self, port: str) -> Any:
        return self._inboxes[port] if self._real is None else self._real.inbox(port)

    def stamps(self, port: str) -> Stamps:
        found: Stamps = self._inboxes[port][0] if self._real is None else self._real.stamps(port)
        return found

    def push(self, stamps: Stamps) -> Any:
        if self._real is not None:
            return self._real.push(stamps)
        box = np.empty(1, object)
        box[0] = stamps
        return box

    def _done(self, argument: Any) -> Any:
        """Do the work, if there is a real worker."""
        return None if self._real is None else self._real.run(argument)

    def close(self) -> None:
        if self._real is not None:
            self._real.close()


class PretendedAverager(PretendedModels):
    """Worker of a Root."""

    def work(self, argument: Average) -> Slices[Averaged]:
        """Let the time of a mean pass."""
        for _ in self._process.compute(self._times.mean(len(argument.ports))):
            yield
        self._done(argument)
        return Averaged()


class PretendedTrainer(PretendedModels):
    """Worker of a learner."""

    def __init__(self, process: Passage, times: Times, config: TrainConfig, group: int, real: ModelWorker | None) -> None:
        super().__init__(process, times, ["root"], real)
        self._config, self._group = config, group

    def work(self, argument: Update | Adopt) -> Slices[UpdateDone | Adopted]:
        """Let the time of a round pass, or of an adoption."""
        if isinstance(argument, Adopt):
            for _ in self._process.compute(self._times.mean(1)):
                yield
            self._done(argument)
            return Adopted()
        trains, config = argument.train or argument.share is not None, self._config
        if trains:
            samples = sum(chunk.count for chunk in argument.chunks)
            share = 1.0 if argument.share is None else argument.share
            took_ns = 0
            for piece_ns in self._process.compute(share * self._times.round(self._group, round(samples / share))):
                took_ns += piece_ns
                yield
            # As the real trainer, whose configuration states how long a round takes at least.
            if (left_ns := round(share * config.update_seconds * 1e9) - took_ns) > 0:
                self._process.sleep(left_ns / 1e9)
                yield
        done: UpdateDone | None = self._done(argument)
        if done is not None:
            return done
        updates = config.round_updates if argument.train else 0
        return UpdateDone(argument.chunks, updates, round(config.reuse * config.round_steps) if updates else 0)
