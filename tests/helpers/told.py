"""What a system tells a recorder, kept in memory, and workloads of the catalogue that differ in a few keys."""

import msgspec

from baselines.workload import Workload
from suites.session import catalogue


class Memory:
    """A recorder that keeps what it is told."""

    may_end = False

    def __init__(self):
        self.first_steps, self.episodes, self.snapshots, self.processes, self.counters = [], [], [], [], {}
        self.reports = []

    def first_step(self, *told):
        self.first_steps.append(told)

    def episode(self, *told):
        self.episodes.append(told)

    def snapshot(self, *told):
        self.snapshots.append(told)

    def progress(self, *told):
        self.reports.append(told)

    def process(self, *told):
        self.processes.append(told)

    def counter(self, name, value, role=""):
        self.counters[name] = value


def changed(name: str, **changes) -> Workload:
    """A workload of the catalogue but for some keys; a table is changed within."""
    data = msgspec.to_builtins(catalogue.load(name))
    for key, value in changes.items():
        data[key] = data.get(key, {}) | value if isinstance(value, dict) else value
    return msgspec.convert(data, Workload)
