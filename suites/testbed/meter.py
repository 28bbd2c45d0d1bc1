"""CPU seconds and memory of a process tree, sampled from outside."""

from __future__ import annotations

import time

import psutil

from suites.records.events import Usage

INTERVAL_S = 0.5
"""Seconds between samples. One takes a millisecond or two, so the meter costs well under 1 % of a core."""


class TreeMeter:
    """Sums over every process that was ever seen under a root.

    A process that ends between two samples is counted up to its last one, so the sum can fall short by less than
    `INTERVAL_S` of that process's time.
    """

    def __init__(self, root_pid: int) -> None:
        self._root = psutil.Process(root_pid)
        self._cpu: dict[tuple[int, float], float] = {}

    def sample(self) -> Usage:
        """Look at the tree now."""
        rss = 0
        try:
            processes = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            processes = []
        for process in processes:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    self._cpu[process.pid, process.create_time()] = times.user + times.system
                    rss += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return Usage(time.monotonic_ns(), sum(self._cpu.values()), rss)
