"""A workload small enough for tests, and third-party systems that misbehave."""

import functools

import pytest
from guests import install
from tiny import tiny_workload

SYSTEMS = '''
import os, subprocess, sys, time
import numpy as np
from baselines.system import System
from tianji.algorithms import networks


class Steady(System):
    """Publishes untrained policies on a schedule: what a well-behaved guest does."""

    name, title = "steady", "Steady"

    def available(self):
        return None

    def deviations(self, task):
        return ["It does not learn."]

    def settings(self, task):
        return {"guest": True}

    def train(self, task, recorder):
        weights = networks.build(task.workload.network, 4, 2).initialise(task.seed)
        recorder.first_step(time.monotonic_ns())
        for steps in range(0, task.workload.budget_steps + 1, task.workload.snapshot_every_steps):
            recorder.episode(time.monotonic_ns(), 9.0, 9, steps)
            recorder.snapshot(time.monotonic_ns(), steps, steps // 64, weights)


class Keen(Steady):
    """Is good from its second snapshot on, and ends when it is let."""

    name, title = "keen", "Keen"

    def train(self, task, recorder):
        weights = networks.build(task.workload.network, 4, 2).initialise(task.seed)
        recorder.first_step(time.monotonic_ns())
        for steps in range(0, task.workload.budget_steps + 1, task.workload.snapshot_every_steps):
            for _ in range(100):
                recorder.episode(time.monotonic_ns(), 500.0 if steps else 9.0, 9, steps)
            recorder.snapshot(time.monotonic_ns(), steps, steps // 64, weights)
            if recorder.may_end:
                return


class Crash(Steady):
    name, title = "crash", "Crash"

    def train(self, task, recorder):
        super().train(task, recorder)
        raise RuntimeError("the engine fell off in " + os.getcwd())


class Hang(Steady):
    name, title = "hang", "Hang"

    def train(self, task, recorder):
        super().train(task, recorder)
        time.sleep(600)


class Litter(Steady):
    """Leaves a process behind that has left its session."""

    name, title = "litter", "Litter"

    def train(self, task, recorder):
        super().train(task, recorder)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)


class Absent(Steady):
    name, title = "absent", "Absent"

    def available(self):
        return "its package is not installed"
'''


def write_tiny(folder, name="cartpole-ppo-tiny", training=450.0, evaluated=475.0, extra=""):
    path = folder / f"{name}.toml"
    path.write_text(tiny_workload(name, training, evaluated) + extra)
    return path


@pytest.fixture
def tiny(tmp_path):
    return functools.partial(write_tiny, tmp_path)


@pytest.fixture(scope="module")
def tiny_module(tmp_path_factory):
    """The same, for tests that share a session."""
    return write_tiny(tmp_path_factory.mktemp("workload"), training=15.0, evaluated=9.0)


@pytest.fixture
def guests(tmp_path, monkeypatch):
    """The misbehaving systems, installed."""
    names = ("Steady", "Keen", "Crash", "Hang", "Litter", "Absent")
    install(tmp_path, monkeypatch, "tianji_bench.systems", "guest_systems", SYSTEMS, names)
