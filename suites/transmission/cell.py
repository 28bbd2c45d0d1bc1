"""Process of one transmission cell: `python -m suites.transmission.cell DIRECTORY PARENT` is the learner and the meter.

For each size it warms up until all queues are full, estimates the speed, and then measures one window. The window goes from its
first message to its last, so that N messages give N - 1 intervals. Every byte is read, and the total is compared with what was
sent. The result is `events.jsonl`. Exit status 0 means measured. Exit status 1 means failed, and the last line of the output
says why.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct

from programs.process import serve_a_runner, status_of
from suites.records import bundle
from suites.records.events import Delays, Transfer
from suites.testbed import netns
from suites.transmission.accounting import Account, Accounts
from suites.transmission.pipe import PIPES, Pipe, Samples, Setting, payload, read
from suites.transmission.traffic import FEW_SLOTS, Extent, Traffic, in_flight
from tianji.launch.node import Node, here

TASK = "task.json"
PROBE_SHARE = 0.25
"""Share of the window for estimating how many messages fill it."""
MOST_BROADCASTS = 2_000
FEWEST_BROADCASTS, FEWEST_MESSAGES = 3, 16


class Task(Struct, frozen=True, kw_only=True):
    """One cell."""

    pipe: str
    traffic: Traffic
    extent: Extent
    explorers: int
    cores: tuple[int, ...]


class WrongBytes(Exception):
    """Error: the received bytes differ from those sent."""


class Meter:
    """Measures a pipe, and writes what it finds."""

    def __init__(self, task: Task, pipe: Pipe, accounts: Accounts, log: bundle.EventLog) -> None:
        self._task, self._pipe, self._accounts, self._log = task, pipe, accounts, log

    def samples(self, size_bytes: int) -> None:
        """Explorers send, the learner reads: throughput, then round trips where one explorer is alone."""
        task, explorers = self._task, self._task.explorers
        sum_of_one = int(read(payload(size_bytes)))
        with self._pipe.samples(size_bytes) as end:
            # Every slot once: pages are there afterwards.
            rate = self._window(end, in_flight(size_bytes, explorers) + 1, size_bytes, sum_of_one).rate
            rate = self._window(end, self._enough(rate * PROBE_SHARE, size_bytes), size_bytes, sum_of_one).rate
            each = self._enough(rate, size_bytes)
            before = self._accounts.read()
            window = self._window(end, each, size_bytes, sum_of_one)
            self._transfer(size_bytes, each * explorers, window.intervals, window.seconds, before)
            if explorers == 1 and task.extent.trips:
                trips = max(8, min(task.extent.trips, int(task.extent.window_s * rate / 4)))
                end.round_trips(max(2, trips // 10))
                self._log.write(delays("round_trip", size_bytes, end.round_trips(trips)))

    def _enough(self, rate: float, size_bytes: int) -> int:
        """Messages of each explorer that fill a window at this rate, and are many more than those in flight."""
        explorers = self._task.explorers
        fewest = max(2 * min(in_flight(size_bytes, explorers), FEW_SLOTS), -(-FEWEST_MESSAGES // explorers))
        return max(fewest, round(rate * self._task.extent.window_s / explorers))

    def _window(self, end: Samples, each: int, size_bytes: int, sum_of_one: int) -> Window:
        """Have explorers send so many each, read them all, and look at the clock when the first and the last have come."""
        messages = each * self._task.explorers
        left, total = messages * size_bytes, 0
        told = time.perf_counter_ns()
        end.begin(each)
        first = begun = 0
        while left > 0:
            bodies = end.receive()
            for body in bodies:
                total += int(read(body))
                left -= body.nbytes
            end.release()
            if not begun:
                begun = time.perf_counter_ns()
                first = messages * size_bytes - left
        ended = time.perf_counter_ns()
        if left or (total - messages * sum_of_one) % 2**64:
            raise WrongBytes(f"{messages} messages of {size_bytes} bytes came with {-left} bytes too many, or other bytes")
        return Window((messages * size_bytes - first) / size_bytes, (ended - begun) / 1e9, messages / ((ended - told) / 1e9))

    def weights(self, size_bytes: int) -> None:
        """The learner sends a vector to all, again when all have it."""
        vector = np.random.default_rng(0).normal(size=size_bytes // 4).astype(np.float32)
        version = 0
        with self._pipe.weights(size_bytes) as send_to_all:

            def broadcast(rounds: int) -> list[int]:
                nonlocal version
                took = []
                for _ in range(rounds):
                    version += 1
                    vector[0] = vector[-1] = version
                    before = time.perf_counter_ns()
                    send_to_all(version, vector)
                    took.append(time.perf_counter_ns() - before)
                return took

            broadcast(3)
            typical = float(np.median(broadcast(3))) / 1e9
            window = self._task.extent.window_s
            rounds = min(MOST_BROADCASTS, max(FEWEST_BROADCASTS, round(window / typical)))
            before = self._accounts.read()
            took = broadcast(rounds)
            delivered = rounds * self._task.explorers
            self._transfer(size_bytes, delivered, delivered, sum(took) / 1e9, before)
            self._log.write(delays("broadcast", size_bytes, took))

    def _transfer(self, size_bytes: int, messages: int, intervals: float, seconds: float, before: Account) -> None:
        """Write down what was moved since the account was read."""
        used = self._accounts.read().since(before)
        self._log.write(
            Transfer(
                time.monotonic_ns(),
                size_bytes=size_bytes,
                messages=messages,
                intervals=intervals,
                seconds=seconds,
                cpu_s=used.cpu_s,
                tcp_bytes=used.tcp_bytes,
            )
        )


class Window(Struct, frozen=True):
    """Measurements of one window."""

    intervals: float
    """Messages that came after the first look at the clock."""
    seconds: float

    rate: float
    """Messages per second since explorers were told to begin."""


def delays(kind: Literal["round_trip", "broadcast"], size_bytes: int, nanoseconds: Sequence[int]) -> Delays:
    """Event with the number of delays and their percentiles in ascending order."""
    percentiles = np.percentile(nanoseconds, np.arange(101), method="inverted_cdf").astype(int).tolist()
    return Delays(time.monotonic_ns(), kind=kind, size_bytes=size_bytes, count=len(nanoseconds), percentiles_ns=percentiles)


@contextmanager
def place(traffic: Traffic) -> Iterator[tuple[Node, Node]]:
    """The learner's host and the explorers'."""
    if traffic.testbed == "local":
        node = here()
        yield node, node
        return
    netns.become_able()
    with netns.pair(traffic.link_bits_per_s) as (first, second):
        yield first, second


def measure(task: Task, directory: Path) -> None:
    """Measure all sizes of a cell."""
    with (
        bundle.EventLog(directory / "events.jsonl") as log,
        TemporaryDirectory(prefix="t-") as folder,
    ):
        log.phase("setup")
        with place(task.traffic) as (learner, beyond):
            setting = Setting(task.explorers, learner, beyond, task.extent.sizes, Path(folder), len(task.cores))
            pipe = PIPES.get(task.pipe)(setting)
            with Accounts([learner, beyond] if setting.apart else [learner]) as accounts:
                meter = Meter(task, pipe, accounts, log)
                try:
                    pipe.start()
                    log.phase("measured")
                    for size_bytes in task.extent.sizes:
                        (meter.samples if task.traffic.direction == "samples" else meter.weights)(size_bytes)
                finally:
                    log.phase("teardown")
                    pipe.stop()


def main(directory: Path, parent: int) -> int:
    """Measure the task of a directory."""
    task = msgspec.json.decode((directory / TASK).read_bytes(), type=Task)
    serve_a_runner(parent, task.cores, f"tj-{task.pipe}")
    return status_of(lambda: measure(task, directory))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
