"""Trains the task of this folder with Sample Factory, in an interpreter that has it and nothing of this project."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.algo.utils.context import global_model_factory
from sample_factory.algo.utils.misc import ExperimentStatus
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner
from signal_slot.signal_slot import EventLoopObject

from baselines.sample_factory.parts import from_torch, make_actor_critic, make_environment
from baselines.separate.counted import Counts
from baselines.separate.run import Run


class Record(EventLoopObject, AlgoObserver):
    """Records a run from its driver, which hears of each training iteration.

    The learner's parameters lie in shared memory. It changes them under a lock, under which they are read here.
    """

    def __init__(self, run: Run, runner: Any, counts: Counts) -> None:
        EventLoopObject.__init__(self, runner.event_loop, "record")
        self.run, self.counts = run, counts
        self.depth = len(run.workload["network"]["hidden"])
        self.round_steps, self.budget = run.settings["round_steps"], run.workload["budget_steps"]
        self.epochs = run.settings["options"]["num_epochs"]
        self.state: Any = None
        self.steps = self.version = 0

    def on_connect_components(self, runner: Any) -> None:
        """Ask for the parameters when they are there."""
        self.learner, self.versions = runner.learners[0], runner.buffer_mgr.policy_versions
        self.learner.model_initialized.connect(self.begin)

    def begin(self, model: Any) -> None:
        """Take the first policy, before the first update."""
        _, self.state, _, _ = model
        self.snapshot(0)

    def remove_files(self) -> None:
        """Remove the files of the shared memory. torch's helper does so later, and may be killed before."""
        for tensor in (self.state or {}).values():
            _, name, _ = tensor.untyped_storage()._share_filename_cpu_()
            Path("/dev/shm", name.decode().lstrip("/")).unlink(missing_ok=True)

    def look(self) -> None:
        """Record what the environments have done meanwhile. Their first step begins the measured time."""
        self.steps, first_ns = self.counts.read()
        if first_ns is not None:
            self.run.recording.first_step(first_ns)
        for episode in self.counts.episodes():
            self.run.recording.episode(*episode)

    def snapshot(self, steps: int) -> None:
        """Record the policy as it is now."""
        with self.learner.param_server.policy_lock:
            tensors, self.version = from_torch(self.state, self.depth), int(self.versions[0])
            at_ns = time.monotonic_ns()
        self.run.snapshot(steps, self.version, tensors, at_ns)

    def on_training_step(self, runner: Any, training_iteration_since_resume: int) -> None:
        """A round has been trained on."""
        if runner.stopped:
            return
        self.look()
        unique = training_iteration_since_resume * self.round_steps
        self.run.progress(self.steps, unique * self.epochs, unique)
        if self.run.due(self.steps):
            self.snapshot(self.steps)
        if self.run.stopping or self.steps + self.round_steps > self.budget:
            # The learner still ends the round that it has begun, and its process ends with its memory.
            self.snapshot(self.steps)
            runner._stop_training()


def options(settings: dict[str, Any]) -> list[str]:
    """Its command line."""
    arguments = ["--experiment=run"]
    for name, value in settings["options"].items():
        arguments += [f"--{name}", *map(str, value)] if isinstance(value, list) else [f"--{name}={value}"]
    return arguments


def main() -> None:
    """Train, and record it."""
    with Run() as run:
        register_env(run.settings["options"]["env"], make_environment)
        global_model_factory().register_actor_critic_factory(make_actor_critic)
        given = options(run.settings)
        cfg = parse_full_cfg(parse_sf_args(given)[0], given)
        # Its command line does not offer the linear one, which its learner has.
        cfg.lr_schedule = run.settings["lr_schedule"]
        cfg, runner = make_runner(cfg)
        record = Record(run, runner, Counts(run.workload["environments"]))
        runner.register_observer(record)
        status = runner.init()
        if status == ExperimentStatus.SUCCESS:
            status = runner.run()
            record.remove_files()
        if status != ExperimentStatus.SUCCESS:
            raise SystemExit(f"Sample Factory ended with status {status}")
        run.close(record.steps, record.version, {}, {})


if __name__ == "__main__":
    main()
