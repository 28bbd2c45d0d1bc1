"""Short runs of systems in environments of their own, and what they recorded."""

import json
from dataclasses import dataclass

import numpy as np

from baselines import system
from baselines.recorder import FileRecorder
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
        return np.array_equal(first.weights, first.network.initialise(seed))

    @property
    def changed(self):
        """Whether no policy is like the one before, and all parts of a policy have been trained."""
        first, last = (one.network.named_tensors(one.weights) for one in (self.policies[0], self.policies[-1]))
        return all(not np.array_equal(first[name], last[name]) for name in first) and all(
            not np.array_equal(one.weights, other.weights) for one, other in zip(self.policies, self.policies[1:], strict=False)
        )


def trained(name, workload, folder, cores=(0,)):
    """Train a workload in this process's child, from seed 5."""
    under_test = system.get(name)
    try:
        with FileRecorder(folder, workload) as recorder:
            under_test.train(system.Task(name, workload, 5, cores), recorder)
    finally:
        under_test.stop()
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
