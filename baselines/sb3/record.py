"""Records a run of Stable-Baselines3, through its callback interface.

A round is a rollout and the training after it. The training has ended when the next rollout starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from stable_baselines3.common.callbacks import BaseCallback

from baselines.system import Recorder
from baselines.workload import Workload
from tianji.algorithms.networks import Vector


class Record(BaseCallback):
    """Records one run, and ends it after the round in which its seconds are spent, or the recorder lets it end.

    Parameters
    ----------
    policy
        gives the flat vector of the policy as it stands.
    version
        gives the optimizer steps done so far.
    """

    def __init__(
        self, recorder: Recorder, workload: Workload, policy: Callable[[], Vector], version: Callable[[], int]
    ) -> None:
        super().__init__()
        self.recorder = recorder
        self.workload = workload
        self.policy = policy
        self.version = version
        self.steps = 0
        """Environment steps of complete rounds."""
        self.busy_ns = {"sample": 0, "update": 0}
        self._start = self._sampling_since = self._ready = 0
        self._updating_since: int | None = None
        self._snapshot_at = -1
        self._over = False

    def _on_training_start(self) -> None:
        # Its environments are reset; its first step follows.
        self._start = self._ready = time.monotonic_ns()
        self.recorder.first_step(self._start)
        self._snapshot()

    def _on_rollout_start(self) -> None:
        self._end_round()
        self._sampling_since = time.monotonic_ns()

    def _on_step(self) -> bool:
        if self._over:
            # Returning false is how it is stopped, which it asks about after a step only: that one counts as none.
            return False
        if self.locals["dones"].any():
            at = time.monotonic_ns()
            for info in self.locals["infos"]:
                if episode := info.get("episode"):
                    self.recorder.episode(at, float(episode["r"]), int(episode["l"]), int(self.model.num_timesteps))
        return True

    def _on_rollout_end(self) -> None:
        self._updating_since = time.monotonic_ns()
        self.busy_ns["sample"] += self._updating_since - self._sampling_since

    def _on_training_end(self) -> None:
        self._end_round()
        if self._snapshot_at != self.steps:
            self._snapshot()

    def _end_round(self) -> None:
        if self._updating_since is None:
            return
        self._ready = time.monotonic_ns()
        self.busy_ns["update"] += self._ready - self._updating_since
        self._updating_since = None
        before, self.steps = self.steps, int(self.model.num_timesteps)
        every = self.workload.snapshot_every_steps
        if before // every != self.steps // every:
            self._snapshot()
        self._over = self.recorder.may_end or self._ready - self._start >= self.workload.budget_seconds * 1e9

    def _snapshot(self) -> None:
        self.recorder.snapshot(self._ready, self.steps, self.version(), self.policy())
        self._snapshot_at = self.steps
