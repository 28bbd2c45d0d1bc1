"""Evaluation beside training: a process of its own plays snapshots, and the best policy is kept.

The launcher hands it one snapshot at a time, the newest one, and goes on at once. So a slow evaluation skips snapshots, and
never holds up the run. Run as a module, this is that process: it reads snapshots from standard input and answers with lines of
JSON.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time

import msgspec
import numpy as np
from msgspec import Struct

from programs.process import die_with_parent, name_process
from tianji import held
from tianji.algorithms import networks
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.launch.children import ONE_THREAD
from tianji.launch.events import Evaluated
from tianji.messages import Snapshot
from tianji.policy import Policy
from tianji.run.play import Player

LAST_S = 120.0
"""Seconds that the evaluation of the last snapshot may take after the end of the run."""
NICE = 5
"""By how much it stands back behind the run's own processes."""


class Order(Struct, frozen=True):
    """What the process plays."""

    config: TrainConfig
    describe: EnvDescription
    parent: int
    import_path: tuple[str, ...]


class Task(Struct, frozen=True):
    """A snapshot, whose bytes follow."""

    version: int
    steps: int
    size: int


class Answer(Struct, frozen=True):
    """Returns of a snapshot's episodes."""

    version: int
    steps: int
    returns: tuple[float, ...]


class Evaluations:
    """The launcher's end: offers snapshots, and collects what came of them."""

    def __init__(self, config: TrainConfig, describe: EnvDescription) -> None:
        every = config.evaluation.every_steps
        assert every is not None
        self._every, self._next = every, 0
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._playing: Snapshot | None = None
        self._waiting: Snapshot | None = None
        self._played: Snapshot | None = None
        inherits, variables = held.inherited(config.env)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tianji.run.evaluations"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD, **variables},
            pass_fds=inherits,
        )
        for descriptor in inherits:
            os.close(descriptor)
        self._orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._orders.put(msgspec.json.encode(Order(config, describe, os.getpid(), tuple(map(str, sys.path)))) + b"\n")
        for work in (self._write, self._read):
            threading.Thread(target=work, daemon=True).start()

    def _write(self) -> None:
        """Pass orders on. The process may take seconds to read one: it imports at first, and plays later."""
        assert self._process.stdin is not None
        while data := self._orders.get():
            try:
                self._process.stdin.write(data)
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError):  # It has ended, or `close` was called.
                return

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(msgspec.json.decode(line, type=Answer))
        self._answers.put(None)

    def offer(self, snapshot: Snapshot) -> None:
        """Have a snapshot played, if it is time for one. While another is played, the newest one waits."""
        if snapshot.steps < self._next:
            return
        if self._playing is not None:
            self._waiting = snapshot
            return
        self._playing, self._next = snapshot, snapshot.steps + self._every
        task = Task(snapshot.version, snapshot.steps, len(snapshot.weights))
        self._orders.put(msgspec.json.encode(task) + b"\n" + snapshot.weights)

    def finished(self, within_s: float = 0.0) -> list[tuple[Snapshot, Evaluated]]:
        """Snapshots that were played since the last call, with their returns.

        Raises
        ------
        RuntimeError
            if the process has ended.
        """
        found, end = [], time.monotonic() + within_s
        while self._playing is not None:
            try:
                answer = self._answers.get(timeout=max(0.0, end - time.monotonic())) if within_s else self._answers.get_nowait()
            except queue.Empty:
                break
            if answer is None:
                self._playing = None
                raise RuntimeError("the process that evaluates beside training has ended; its error stands above")
            snapshot = self._played = self._playing
            self._playing = None
            found.append((snapshot, Evaluated(answer.version, answer.steps, answer.returns, time.monotonic_ns())))
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                self.offer(waiting)
        return found

    def last(self, snapshot: Snapshot | None) -> list[tuple[Snapshot, Evaluated]]:
        """Have the run's last snapshot played, if it was not, in this call or before it, and wait for it."""
        found, played = self.finished(LAST_S), self._played
        if snapshot is not None and (
            played is None or (played.version, played.weights) != (snapshot.version, snapshot.weights)
        ):
            self._next = 0
            self.offer(snapshot)
            found += self.finished(LAST_S)
        return found

    def close(self) -> None:
        """End the process."""
        self._orders.put(b"")
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


def main() -> int:
    """Play the snapshots that standard input gives, until it ends."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # Whatever an environment prints goes to standard error.
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    sys.path[:] = order.import_path
    die_with_parent(order.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name_process("tj-evaluation")
    os.nice(NICE)
    config, evaluation = order.config, order.config.evaluation
    network = networks.of(config, order.describe)
    player = Player(config.env, evaluation.episodes, config.atari, config.simulator, config.environment)
    seeds = range(evaluation.seed, evaluation.seed + evaluation.episodes)
    while line := sys.stdin.buffer.readline():
        task = msgspec.json.decode(line, type=Task)
        weights = np.frombuffer(sys.stdin.buffer.read(task.size), "<f4")
        returns = player.play(Policy(network, weights), seeds)
        answers.write(msgspec.json.encode(Answer(task.version, task.steps, tuple(returns.tolist()))) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
