"""What the channel makes of one host: against memory itself, against plain pyzmq, with many readers, and idle.

    python benchmarks/channel.py [--rounds N] [--sizes BYTES,...]

Every figure comes from fresh processes, round by round in a rotating order, and is compared within its round. A round's
cell moves messages from one process to another, which reads every byte of them:

- `memory`: the same slots, one copy in, the same reading, and a bare counter that both sides watch without rest;
- `channel`: `shm://`, a producer that sends what it has credit for, a consumer that releases what it has read;
- `pyzmq`: PUSH to PULL over ipc, without copies where pyzmq knows how.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import zmq

from tianji.channel.arena import Arena
from tianji.channel.base import EdgeSpec
from tianji.channel.registry import Network
from tianji.channel.shared import SharedInlet
from tianji.channel.waiter import Waiter
from tianji.layout import ChunkLayout, Field
from tianji.messages import ChunkHeader, SlotRef

SIZES = (1 << 10, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
ARENA_BYTES, MOST_SLOTS = 1 << 24, 1024
"""Slots of one producer together; but at least 4 slots, and no more than that many."""
CELL_S = 0.7
"""About how long a cell measures."""
ROUGH_BYTES_PER_S = {"memory": 16e9, "channel": 11e9, "pyzmq": 2.4e9}
ROUGH_MESSAGES_PER_S = {"memory": 700e3, "channel": 400e3, "pyzmq": 400e3}
GROUP, GROUP_BYTES = 64, 1 << 20
"""Messages that a producer sends, and a consumer releases, at once: at most so many, and of so many bytes."""
WEIGHTS = 1 << 20
"""Parameters: 4 MiB."""
WEIGHTS_ROUNDS = 60
WEIGHTS_PAUSE_S = 0.03
IDLE_S = 5.0

read = np.add.reduce


def slots_for(size: int) -> int:
    return max(4, min(MOST_SLOTS, ARENA_BYTES // size))


def group_for(size: int) -> int:
    return max(1, min(GROUP, GROUP_BYTES // size))


def payload(size: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2**63, size // 8, dtype=np.uint64)


@contextmanager
def child(work: Callable[[], None]) -> Iterator[int]:
    """A forked process that does the work and then stands still until it is killed: nobody's end disturbs the measurement."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            signal.pause()
        finally:
            os._exit(1)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


class Stopwatch:
    """Counts messages; the time begins when the first `warm` have been read."""

    def __init__(self, warm: int) -> None:
        self.warm, self.count, self.begun = warm, 0, 0.0

    def tick(self) -> None:
        self.count += 1
        if self.count == self.warm:
            self.begun = time.perf_counter()

    def rate(self) -> float:
        return (self.count - self.warm) / (time.perf_counter() - self.begun)


def memory(size: int, number: int, warm: int, folder: str) -> float:
    slots = slots_for(size)
    head = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
    written, done = 0, 16
    body = mmap.mmap(-1, slots * size)
    arrays = [np.frombuffer(body, np.uint64, size // 8, n * size) for n in range(slots)]

    def produce() -> None:
        source = payload(size)
        for n in range(number):
            while n - head[done] >= slots:
                pass
            arrays[n % slots][:] = source
            head[written] = n + 1

    watch = Stopwatch(warm)
    with child(produce):
        for n in range(number):
            while head[written] <= n:
                pass
            read(arrays[n % slots])
            head[done] = n + 1
            watch.tick()
        return watch.rate()


def channel(size: int, number: int, warm: int, folder: str) -> float:
    spec = EdgeSpec(ChunkLayout([Field("payload", "<u8", (size // 8,))]), slots_for(size), 1)
    layout, rows, group, uri = spec.layout.id, size // 8, group_for(size), f"shm://{folder}/edge"

    def produce() -> None:
        with Network() as network, network.outlet(uri, spec, 0) as outlet, Waiter([outlet]) as waiter:
            arrays = [np.frombuffer(outlet.slot(SlotRef(0, n)), np.uint64) for n in range(spec.slots)]
            source, sent = payload(size), 0
            while sent < number:
                if not (free := outlet.credits()):
                    waiter.wait()
                    continue
                del free[number - sent :]
                for start in range(0, len(free), group):
                    part = free[start : start + group]
                    for ref in part:
                        arrays[ref.slot][:] = source
                    outlet.send([ChunkHeader(0, n, 0, layout, 1, rows, size, ref) for n, ref in enumerate(part, sent)])
                    sent += len(part)
            outlet.flush()
            signal.pause()

    watch = Stopwatch(warm)
    with child(produce), Network() as network, network.inlet(uri, spec) as inlet, Waiter([inlet]) as waiter:
        assert isinstance(inlet, SharedInlet)
        arrays: dict[Arena, list[np.ndarray]] = {}
        while watch.count < number:
            if not (chunks := inlet.receive()):
                waiter.wait()
            for start in range(0, len(chunks), group):
                part = [chunk.slot for chunk in chunks[start : start + group]]
                # There is one producer: where its first slot lies, all of them do.
                arena = inlet.arena(part[0])
                if arena not in arrays:
                    arrays[arena] = [np.frombuffer(view, np.uint64) for view in arena.views]
                bodies = arrays[arena]
                for ref in part:
                    read(bodies[ref.slot])
                    watch.tick()
                inlet.release(part)
        return watch.rate()


def pyzmq(size: int, number: int, warm: int, folder: str) -> float:
    uri, copy = f"ipc://{folder}/plain", size < zmq.COPY_THRESHOLD

    def produce() -> None:
        source = payload(size)
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.connect(uri)
            for _ in range(number):
                socket.send(source, copy=copy)
            signal.pause()  # A socket that closes while its peer is at its limit may lose what is on the way.

    watch = Stopwatch(warm)
    with child(produce), zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.bind(uri)
        for _ in range(number):
            frame = socket.recv(copy=copy)
            read(np.frombuffer(frame if copy else frame.buffer, np.uint64))
            watch.tick()
        return watch.rate()


def publish(readers: int, folder: str) -> tuple[float, float]:
    """Median seconds that one publication takes: on the clock, and of the publisher's CPU."""
    uri = f"shm://{folder}/weights"

    def follow() -> None:
        out = np.zeros(WEIGHTS, np.float32)
        with Network() as network, network.weights_inlet(uri, WEIGHTS) as inlet, Waiter([inlet]) as waiter:
            while True:
                waiter.wait()
                inlet.latest(out)

    def follow_all(left: int) -> list[tuple[float, float]]:
        if left:
            with child(follow):
                return follow_all(left - 1)
        taken = []
        with Network() as network, network.weights_outlet(uri, WEIGHTS) as outlet, Waiter([outlet]) as waiter:
            vector, version = np.random.default_rng(0).normal(size=WEIGHTS).astype(np.float32), 0
            while outlet.readers() < readers:
                waiter.wait()
                outlet.serve()
            for version in range(WEIGHTS_ROUNDS):
                time.sleep(WEIGHTS_PAUSE_S)  # What a learner does between two publications; readers have read by then.
                clock, cpu = time.perf_counter(), time.thread_time()
                outlet.publish(version, vector)
                taken.append((time.perf_counter() - clock, time.thread_time() - cpu))
        return taken[WEIGHTS_ROUNDS // 4 :]

    clock, cpu = zip(*follow_all(readers), strict=True)
    return statistics.median(clock), statistics.median(cpu)


def idle(folder: str) -> float:
    """Share of a core that a consumer uses, with a producer and a publisher connected, while nothing is sent."""
    spec = EdgeSpec(ChunkLayout([Field("payload", "<u8", (128,))]), 4, 1)
    chunks, weights = f"shm://{folder}/edge", f"shm://{folder}/weights"

    def others() -> None:
        with (
            Network() as network,
            network.outlet(chunks, spec, 0) as outlet,
            network.weights_outlet(weights, 1000) as publisher,
            Waiter([outlet, publisher]) as waiter,
        ):
            while True:
                outlet.credits()
                publisher.serve()
                waiter.wait()

    with (
        child(others),
        Network() as network,
        network.inlet(chunks, spec) as inlet,
        network.weights_inlet(weights, 1000) as reader,
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


CELLS = {"memory": memory, "channel": channel, "pyzmq": pyzmq}


def cell(name: str, *numbers: int) -> object:
    """Measure one cell, in this process and those that it starts."""
    with tempfile.TemporaryDirectory(prefix="tj") as folder:
        if name == "publish":
            return publish(numbers[0], folder)
        return idle(folder) if name == "idle" else CELLS[name](*numbers, folder)


def fresh(name: str, *numbers: int) -> object:
    """Measure one cell in fresh processes."""
    command = [sys.executable, __file__, "--cell", name, *map(str, numbers)]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120, env=one_thread).stdout)


def rotated(names: list[str], turn: int) -> list[str]:
    return names[turn % len(names) :] + names[: turn % len(names)]


def spread(values: list[float], digits: int = 2) -> str:
    """Median, and in brackets the smallest and the largest."""
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f} {max(values):.{digits}f}]"


def compare(size: int, rounds: int) -> None:
    """One line for one size."""
    rates: dict[str, list[float]] = {name: [] for name in CELLS}
    warm = 2 * slots_for(size) + 1
    for turn in range(rounds):
        for name in rotated(list(CELLS), turn):
            a_second = min(ROUGH_BYTES_PER_S[name] / size, ROUGH_MESSAGES_PER_S[name])
            rates[name].append(float(fresh(name, size, warm + max(24, int(CELL_S * a_second)), warm)))  # type: ignore[arg-type]

    def ratios(other: str) -> list[float]:
        return [ours / theirs for ours, theirs in zip(rates["channel"], rates[other], strict=True)]

    speed = "  ".join(f"{name} {statistics.median(r) * size / 1e9:6.2f}" for name, r in rates.items())
    print(
        f"{size:>10,} B  GB/s {speed}   channel {statistics.median(rates['channel']):>9,.0f} messages/s; "
        f"of memory {spread(ratios('memory'))}; times pyzmq {spread(ratios('pyzmq'))}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=list(SIZES))
    parser.add_argument("--cell", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(cell(options.cell[0], *map(int, options.cell[1:]))))
        return 0
    print(f"{options.rounds} rounds; medians [smallest largest]; ratios within a round")
    for size in options.sizes:
        compare(size, options.rounds)
    clock, cpu = [], []
    for turn in range(options.rounds):
        one, eight = (fresh("publish", n) for n in ((1, 8) if turn % 2 else (8, 1)))
        if not turn % 2:
            one, eight = eight, one
        clock.append(eight[0] / one[0])  # type: ignore[index]
        cpu.append(eight[1] / one[1])  # type: ignore[index]
    print(f"publishing 4 MiB to 8 readers, times to 1: CPU of the publisher {spread(cpu)}; on the clock {spread(clock)}")
    print(f"an idle channel: {spread([100 * float(fresh('idle')) for _ in range(options.rounds)], 3)} % of a core")  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main())
