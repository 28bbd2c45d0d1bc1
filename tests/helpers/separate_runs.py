"""Short runs of systems in environments of their own, and what they recorded."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from elsewhere import run_in

from baselines import system
from baselines.recorder import FileRecorder
from baselines.workload import Workload
from suites.records import bundle
from suites.records.events import Counter, Episode, FirstStep, Progress, Snapshot
from tianji.policy import load_policy

FROZEN = {"budget_steps": 1600, "horizon_steps": 1600, "snapshot_every_steps": 700}
"""Of a run that takes a second."""


def plain(task):
    """Settings of a task, which must be plain data."""
    told = system.get(task.system).settings(task)
    assert json.loads(json.dumps(told)) == told
    return told


@dataclass
class Found:
    """What a run recorded."""

    first_ns: int
    episodes: list
    snapshots: list
    progress: list
    counters: dict
    policies: list

    def begins_as(self, seed):
        """Whether its first policy has the weights that every system begins with."""
        first = self.policies[0]
        ours, known = first.network.named_tensors(first.weights), first.network.named_tensors(first.network.initialise(seed))
        return all(np.array_equal(ours[name], known[name]) for name in ours if not name.startswith("normaliser."))

    @property
    def changed(self):
        """Whether no policy is like the one before, and all parts of a policy have been trained."""
        first, last = (one.network.named_tensors(one.weights) for one in (self.policies[0], self.policies[-1]))
        return all(not np.array_equal(first[name], last[name]) for name in first if name != "normaliser.clip") and all(
            not np.array_equal(one.weights, other.weights) for one, other in zip(self.policies, self.policies[1:], strict=False)
        )


def trained(name, workload, folder, cores=(0,)):
    """Train a workload in this process's child, from seed 5."""
    train(name, workload, folder, cores)
    return recorded(folder)


def trained_elsewhere(name, workload, folder):
    """As `trained`, for a system that trains in the process that asks it: that is another one."""
    (folder / "workload.json").write_bytes(msgspec.json.encode(workload))
    run_in(folder, __file__, name)
    return recorded(folder)


def train(name, workload, folder, cores=(0,)):
    """Train a workload and record it in a folder."""
    under_test, task = system.get(name), system.Task(name, workload, 5, cores)
    try:
        with FileRecorder(folder, workload) as recorder:
            under_test.prepare(task, recorder)
            under_test.train(task, recorder)
    finally:
        under_test.stop()


def recorded(folder):
    """What a run has recorded in a folder."""
    events = bundle.read_events(folder / "events.jsonl")

    def of(kind):
        return [event for event in events if isinstance(event, kind)]

    snapshots = of(Snapshot)
    return Found(
        first_ns=of(FirstStep)[0].ns,
        episodes=of(Episode),
        snapshots=snapshots,
        progress=of(Progress),
        counters={event.name: event.value for event in of(Counter)},
        policies=[load_policy(folder / one.file) for one in snapshots],
    )


if __name__ == "__main__":
    train(sys.argv[1], msgspec.json.decode(Path("workload.json").read_bytes(), type=Workload), Path())
