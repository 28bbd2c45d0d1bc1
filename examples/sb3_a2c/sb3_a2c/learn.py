"""Trains the task of `task.json` in this folder. It holds the recorder, one file, and nothing else of the benchmark."""

import json
import signal
import time
from pathlib import Path

import numpy as np
import torch
from recording import Recording
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env


class Report(BaseCallback):
    """Reports what A2C does, and ends it when a stop is requested."""

    def __init__(self, recording, every_steps):
        super().__init__()
        self.recording, self.every_steps = recording, every_steps
        self.last_steps, self.last_progress_s = -1, 0.0
        self.stopping = False

    def stop(self, *signal_and_frame):
        self.stopping = True

    def snapshot(self):
        steps, name = self.num_timesteps, f"{self.num_timesteps:09d}.npz"
        if steps == self.last_steps:
            return
        weights = {key: value.numpy() for key, value in self.model.policy.state_dict().items()}
        np.savez(self.recording.snapshots / name, **weights)
        updates = self.model._n_updates
        self.recording.snapshot_file(time.monotonic_ns(), steps, updates, f"snapshots/{name}")
        self.last_steps = steps

    def _on_training_start(self):
        self.snapshot()
        self.recording.first_step(time.monotonic_ns())

    def _on_step(self):
        now = time.monotonic_ns()
        for info in self.locals["infos"]:
            if "episode" in info:
                episode = info["episode"]
                self.recording.episode(now, float(episode["r"]), int(episode["l"]), self.num_timesteps)
        return not self.stopping

    def _on_rollout_start(self):
        # The round before has been trained on.
        if self.num_timesteps // self.every_steps > self.last_steps // self.every_steps:
            self.snapshot()
        if time.monotonic() - self.last_progress_s >= 0.5:
            self.last_progress_s = time.monotonic()
            counts = {"samples_produced": self.num_timesteps, "samples_consumed": self.num_timesteps}
            self.recording.progress(time.monotonic_ns(), "driver", counts)
            self.recording.flush()

    def _on_training_end(self):
        self.snapshot()
        cpu_s = time.process_time()
        self.recording.process("driver", {"all": cpu_s}, {}, cpu_s, 0)


def main():
    """Train the task of this folder."""
    task = json.loads(Path("task.json").read_text())
    workload = task["workload"]
    torch.set_num_threads(1)
    environments = make_vec_env(workload["env"], workload["environments"], seed=task["seed"])
    hidden = list(workload["network"]["hidden"])
    model = A2C("MlpPolicy", environments, seed=task["seed"], device="cpu", policy_kwargs={"net_arch": hidden})
    with Recording(".") as recording:
        report = Report(recording, workload["snapshot_every_steps"])
        signal.signal(signal.SIGTERM, report.stop)
        model.learn(workload["budget_steps"], callback=report, log_interval=None)


if __name__ == "__main__":
    main()
