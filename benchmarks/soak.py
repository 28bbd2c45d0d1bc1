"""A long run with a fault every few minutes: how soon it is at speed again, what it loses, and whether anything grows.

    python -m benchmarks.soak --seconds 7200 --every 180 --seed 0 --out soak.jsonl

Faults come at random times (a Poisson process with this seed): a process of the run is killed, or stopped for some seconds. The
file gets a line for each second and for each fault. Exit status 1 where something was left behind or the run did not go on.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
from msgspec import Struct
from scipy import stats

from benchmarks.fuzz.live import PAIR
from programs.cli import DONE, FAILED, ConfigError, OneLineParser, run
from tianji.config import TrainConfig
from tianji.hyperparameters import PPOConfig
from tianji.messages import Progress
from tianji.run.training import train
from tianji.run.watch import Result

ACTORS = 2
SAVE_S = 5
"""`checkpoint_seconds` of the run."""
AT_SPEED = 0.9
"""Share of the usual steps a second at which a run has recovered."""
WINDOW_S = 3
"""Seconds over which steps are counted for that."""
PATIENCE_S = 60.0
STOPPED_S = 10.0
FAULTS: dict[str, tuple[int, str, int]] = {
    "kill an actor": (signal.SIGKILL, "actor", 1),
    "kill all actors": (signal.SIGKILL, "actor", ACTORS),
    "kill the buffer": (signal.SIGKILL, "buffer", 1),
    "kill the learner": (signal.SIGKILL, "learner", 1),
    "stop an actor for 10 s": (signal.SIGSTOP, "actor", 1),
    "stop the learner for 10 s": (signal.SIGSTOP, "learner", 1),
}
"""Signal, kind of role, and number of processes."""


class Second(Struct, frozen=True, tag="second"):
    """What the run's processes were at one moment."""

    at_s: float
    steps: int
    """Environment steps that were trained on."""
    bytes: int
    descriptors: int
    threads: int
    processes: int


class Fault(Struct, frozen=True, tag="fault"):
    """A fault and what followed."""

    at_s: float
    name: str
    recovered_s: float | None = None
    """Seconds until it was at speed again; None: it was not within `PATIENCE_S`, or another fault came first."""
    steps_lost: int = 0
    """Trained steps that were lost, because the learner went on from an earlier state."""


class Soak:
    """Listener of a run, which looks at it every second and does it harm."""

    def __init__(self, every_s: float, seed: int, names: Sequence[str]) -> None:
        self._every_s, self._rng, self._names = every_s, random.Random(seed), list(names)
        self.seconds: list[Second] = []
        self.faults: list[Fault] = []
        self._steps = 0
        self._over = threading.Event()
        self._began: float | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __call__(self, message: Any) -> None:
        if isinstance(message, Progress) and message.role.startswith("learner"):
            self._steps = int(message.counters["steps"])
            if self._began is None:
                self._began = time.monotonic()
                self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(2 * STOPPED_S)

    def _run(self) -> None:
        assert self._began is not None
        due = self._due(10.0)  # Some seconds first, in which nothing happens.
        while not self._over.wait(1.0):
            now = time.monotonic() - self._began
            self.seconds.append(self._looked_at(now))
            if now >= due:
                self._harm(self._rng.choice(self._names), now)
                due = self._due(now)

    def _due(self, now: float) -> float:
        return now + self._rng.expovariate(1 / self._every_s)

    def _looked_at(self, now: float) -> Second:
        size = descriptors = threads = 0
        children = psutil.Process().children(recursive=True)
        for child in children:
            with suppress(psutil.Error):
                size += child.memory_info().rss
                descriptors += child.num_fds()
                threads += child.num_threads()
        return Second(now, self._steps, size, descriptors, threads, len(children))

    def _harm(self, name: str, now: float) -> None:
        number, kind, count = FAULTS[name]
        found = [one for one in psutil.Process().children() if one.name().startswith(f"tj-{kind}")]
        self._rng.shuffle(found)
        for one in found[:count]:
            os.kill(one.pid, number)
        if number == signal.SIGSTOP:
            timer = threading.Timer(STOPPED_S, _continue, [found[:count]])
            timer.daemon = True
            timer.start()
        self.faults.append(Fault(now, name))

    def judged(self) -> list[Fault]:
        """The faults with what followed each."""
        at = np.array([one.at_s for one in self.seconds])
        steps = np.array([one.steps for one in self.seconds])
        found = []
        for number, fault in enumerate(self.faults):
            until = self.faults[number + 1].at_s if number + 1 < len(self.faults) else at[-1]
            before, after = at <= fault.at_s, (at > fault.at_s) & (at <= min(until, fault.at_s + PATIENCE_S))
            found.append(
                msgspec.structs.replace(
                    fault,
                    recovered_s=_recovered(at[after] - fault.at_s, steps[after], _usual(at[before], steps[before])),
                    steps_lost=int(max(0, steps[before].max() - steps[after].min())) if before.any() and after.any() else 0,
                )
            )
        return found


def _continue(stopped: Sequence[psutil.Process]) -> None:
    for one in stopped:
        with suppress(psutil.Error):
            one.resume()


def _usual(at: np.ndarray[Any, Any], steps: np.ndarray[Any, Any]) -> float:
    """Median steps a second over windows of the last minutes."""
    rates = [
        (steps[end] - steps[start]) / (at[end] - at[start])
        for end in range(len(at) - 1, max(0, len(at) - 300), -WINDOW_S)
        if (start := end - WINDOW_S) >= 0 and steps[end] > steps[start]
    ]
    return float(np.median(rates)) if rates else float("nan")


def _recovered(at: np.ndarray[Any, Any], steps: np.ndarray[Any, Any], usual: float) -> float | None:
    """Seconds until the beginning of the first window that is at speed, after one that was not if there is any."""
    fast = [
        steps[start + WINDOW_S] - steps[start] >= AT_SPEED * usual * (at[start + WINDOW_S] - at[start])
        for start in range(len(at) - WINDOW_S)
    ]
    slow = fast.index(False) if False in fast[: int(STOPPED_S)] else 0
    return float(at[fast.index(True, slow)]) if True in fast[slow:] else None


def slope(seconds: Sequence[Second], name: str) -> tuple[float, float, float]:
    """Growth in an hour as a share of the mean, and its 95 % interval, from minutes; the first minute is left out.

    Minutes are taken as independent, and the interval is Student's.
    """
    minutes: dict[int, list[float]] = {}
    for before, one in pairwise(seconds):
        value = max(0, one.steps - before.steps) / (one.at_s - before.at_s) if name == "steps" else float(getattr(one, name))
        minutes.setdefault(int(one.at_s // 60), []).append(value)
    kept = sorted(minutes)[1:-1]
    if len(kept) < 3:
        return float("nan"), float("nan"), float("nan")
    means = np.array([statistics.median(minutes[minute]) for minute in kept])
    if np.ptp(means) == 0:
        return 0.0, 0.0, 0.0
    fit = stats.linregress(np.array(kept) / 60.0, means / means.mean())
    wide = float(stats.t.ppf(0.975, len(kept) - 2) * fit.stderr)
    return float(fit.slope), float(fit.slope - wide), float(fit.slope + wide)


def soak(seconds: float, every_s: float, seed: int, hosts: int, folder: Path) -> tuple[Result, Soak]:
    """Train for so long under faults."""
    names = [name for name in FAULTS if hosts == 1 or "buffer" not in name]
    config = TrainConfig(
        env="CartPole-v1",
        ppo=PPOConfig(rollout_steps=32, minibatch_size=256, epochs=10, learning_rate=3e-4, gamma=0.98, gae_lambda=0.8),
        actors=ACTORS,
        envs_per_actor=4,
        groups=hosts,
        seed=seed,
        discipline="relaxed",
        placement="buffer",
        restarts=10**6,
        checkpoint_seconds=SAVE_S,
        stop_steps=10**12,
        horizon_steps=10**12,
        stop_seconds=seconds,
    )
    watched = Soak(every_s, seed, names)
    try:
        return train(config, watched, out=folder / "run", cluster=PAIR if hosts == 2 else None), watched
    finally:
        watched.stop()


def main(arguments: Sequence[str]) -> int:
    parser = OneLineParser(prog="python -m benchmarks.soak", description="A long run with a fault every few minutes.")
    parser.add_argument("--seconds", type=float, default=7200.0, metavar="S", help="length (default: %(default)s)")
    parser.add_argument(
        "--every", type=float, default=180.0, metavar="S", help="mean time between faults (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="K", help="seed of the run and its faults (default: %(default)s)"
    )
    parser.add_argument("--hosts", type=int, default=1, choices=(1, 2), help="emulated hosts (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="new file for a line each second and each fault")
    options = parser.parse_args(arguments)
    if options.out is not None and options.out.exists():
        raise ConfigError(f"{options.out}: exists; name a new file")
    shared, children = set(os.listdir("/dev/shm")), set(psutil.Process().children(recursive=True))
    with tempfile.TemporaryDirectory(prefix="tianji-soak-") as folder:
        result, watched = soak(options.seconds, options.every, options.seed, options.hosts, Path(folder))
    faults = watched.judged()
    if options.out is not None:
        options.out.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in [*watched.seconds, *faults]))
    for name in FAULTS:
        if some := [fault for fault in faults if fault.name == name]:
            took = [fault.recovered_s for fault in some if fault.recovered_s is not None]
            told = (
                f"at speed after {statistics.median(took):.0f} s (at most {max(took):.0f} s)" if took else "never seen at speed"
            )
            lost = max(fault.steps_lost for fault in some)
            print(f"{name}: {len(some)} times, {told} in {len(took)} of them, at most {lost:,} steps lost")
    for name in ("bytes", "descriptors", "threads", "steps"):
        growth, low, high = slope(watched.seconds, name)
        print(f"{name}{' a second' * (name == 'steps')}: {growth:+.3f} [{low:+.3f} {high:+.3f}] of the mean in an hour")
    left = set(psutil.Process().children(recursive=True)) - children
    files = {name for name in set(os.listdir("/dev/shm")) - shared if "tianji" in name}
    print(
        f"{result.seconds:.0f} s, {result.steps:,} steps, {len(result.restarts)} restarts; mean return at the end "
        f"{result.mean_return or 0:.0f}; left behind: {len(left)} processes, {len(files)} files"
    )
    return FAILED if left or files or result.outcome != "seconds" else DONE


if __name__ == "__main__":
    sys.exit(run("python -m benchmarks.soak", main))
