"""Cost of the channel for processes that send no chunks: a publisher with many readers, and an idle consumer.

    python benchmarks/channel.py [--rounds N]

Every figure comes from fresh processes, round by round. The speed of messages is measured by the transmission suite (`python -m
suites run transmission`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from tianji.channel.base import EdgeSpec
from tianji.channel.registry import Channels
from tianji.channel.waiter import Waiter
from tianji.layout import ChunkLayout, Field

WEIGHTS = 1 << 20
"""Parameters: 4 MiB."""
WEIGHTS_ROUNDS = 60
WEIGHTS_PAUSE_S = 0.03
IDLE_S = 5.0


@contextmanager
def child(work: Callable[[], None]) -> Iterator[None]:
    """A forked process that does the work, for as long as it is needed."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def publish(readers: int, folder: str) -> tuple[float, float]:
    """Median seconds that one publication takes: on the clock, and of the publisher's CPU."""
    uri = f"shm://{folder}/weights"

    def follow() -> None:
        out = np.zeros(WEIGHTS, np.float32)
        with Channels() as channels, channels.weights_inlet(uri, WEIGHTS) as inlet, Waiter([inlet]) as waiter:
            while True:
                waiter.wait()
                inlet.latest(out)

    taken = []
    with ExitStack() as stack:
        for _ in range(readers):
            stack.enter_context(child(follow))
        channels = stack.enter_context(Channels())
        outlet = stack.enter_context(channels.weights_outlet(uri, WEIGHTS))
        waiter = stack.enter_context(Waiter([outlet]))
        vector = np.random.default_rng(0).normal(size=WEIGHTS).astype(np.float32)
        while outlet.readers() < readers:
            waiter.wait()
            outlet.serve()
        for version in range(WEIGHTS_ROUNDS):
            time.sleep(WEIGHTS_PAUSE_S)  # What a learner does between two publications; readers have read by then.
            clock, cpu = time.perf_counter(), time.thread_time()
            outlet.publish(version, vector)
            taken.append((time.perf_counter() - clock, time.thread_time() - cpu))
    on_clock, of_cpu = zip(*taken[WEIGHTS_ROUNDS // 4 :], strict=True)
    return statistics.median(on_clock), statistics.median(of_cpu)


def idle(folder: str) -> float:
    """Share of a core that a consumer uses, with a producer and a publisher connected, while nothing is sent."""
    spec = EdgeSpec(ChunkLayout([Field("payload", "<u8", (128,))]), 4, 1)
    chunks, weights = f"shm://{folder}/edge", f"shm://{folder}/weights"

    def others() -> None:
        with (
            Channels() as channels,
            channels.outlet(chunks, spec, 0) as outlet,
            channels.weights_outlet(weights, 1000) as publisher,
            Waiter([outlet, publisher]) as waiter,
        ):
            while True:
                outlet.credits()
                publisher.serve()
                waiter.wait()

    with (
        child(others),
        Channels() as channels,
        channels.inlet(chunks, spec) as inlet,
        channels.weights_inlet(weights, 1000) as reader,
        Waiter([inlet, reader]) as waiter,
    ):
        begin = time.monotonic()
        while time.monotonic() < begin + 1:
            inlet.receive()
            reader.latest(np.zeros(1000, np.float32))
            waiter.wait(0.1)
        before, begin = time.process_time(), time.monotonic()
        while (left := begin + IDLE_S - time.monotonic()) > 0:
            waiter.wait(left)
        return (time.process_time() - before) / IDLE_S


def fresh(*cell: str) -> Any:
    """Measure a cell in fresh processes: `idle`, or `publish` and a number of readers."""
    command = [sys.executable, __file__, "--cell", *cell]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120, env=one_thread).stdout)


def spread(values: list[float], digits: int = 2) -> str:
    """Median, and in brackets the smallest and the largest."""
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f} {max(values):.{digits}f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds of each cell (default: %(default)s)")
    parser.add_argument("--cell", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        with tempfile.TemporaryDirectory(prefix="tj") as folder:
            print(json.dumps(publish(int(options.cell[1]), folder) if options.cell[1:] else idle(folder)))
        return 0
    print(f"{options.rounds} rounds; medians [smallest largest]; ratios within a round")
    clock, cpu = [], []
    for turn in range(options.rounds):
        taken = {readers: fresh("publish", readers) for readers in ("18" if turn % 2 else "81")}
        clock.append(taken["8"][0] / taken["1"][0])
        cpu.append(taken["8"][1] / taken["1"][1])
    print(f"publishing 4 MiB to 8 readers, times to 1: CPU of the publisher {spread(cpu)}; on the clock {spread(clock)}")
    print(f"an idle channel: {spread([100 * fresh('idle') for _ in range(options.rounds)], 3)} % of a core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
