"""Frames to every open socket of runs that train: the runs lose no sample and end with the weights of undisturbed ones."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import psutil
import zmq

from benchmarks.fuzz import frames
from tianji.config import TrainConfig
from tianji.hyperparameters import PPOConfig
from tianji.launch.node import Cluster, Node
from tianji.messages import Episodes, PortsOpen
from tianji.run.training import train

PAIR = Cluster((Node("127.0.0.1"), Node("127.0.0.2")))
"""Two hosts, so that roles connect by tcp."""
FIRST = 5
"""Times that each socket is talked to before a run goes on."""
LONGEST_S = 300.0


class Strangers:
    """A listener of a run: threads that talk to the launcher and to every tcp address that roles tell of.

    Parameters
    ----------
    count
        frames for each socket, after which its thread is silent; None: as long as the run goes on.
    seed
        of what is said.
    """

    def __init__(self, count: int | None = None, seed: int = 0) -> None:
        self.count, self.seed, self.over = count, seed, threading.Event()
        self.said: dict[str, int] = {}
        """By address, connections on which something was said."""
        self._threads: list[threading.Thread] = []

    def __call__(self, message: Any) -> str | None:
        """Talk to new addresses; the run ends when everything was said."""
        if isinstance(message, PortsOpen):
            told = [address for address in message.addresses.values() if address.startswith("tcp://")]
            if not self.said:
                told += list(_own_sockets())
            for address in told:
                self.said[address] = 0
                self._threads.append(threading.Thread(target=self._talk, args=(address,), daemon=True))
                self._threads[-1].start()
            # The run is not connected before this returns: however slow the machine, every socket hears strangers first.
            deadline = time.monotonic() + 30
            while any(self.said[address] < FIRST for address in told):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"strangers could not connect: {self.said}")
                time.sleep(0.01)
        # An episode: so the run has trained for a while.
        talking = self.count is None or any(thread.is_alive() for thread in self._threads)
        return "everything was said" if isinstance(message, Episodes) and not talking else None

    def _talk(self, address: str) -> None:
        rng = random.Random(f"{self.seed} {len(self.said)}")
        host, port = address.removeprefix("tcp://").split(":")
        with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
            stranger.linger, stranger.sndtimeo = 0, 20
            stranger.connect(address)
            while not self.over.is_set() and (self.count is None or self.said[address] < self.count):
                frame = bytes(200_000) if rng.random() < 0.05 else frames.mutate(rng)
                with suppress(zmq.Again):  # Behind a handshake that is refused, no frame is taken for long.
                    stranger.send_multipart([frame] * rng.choice((1, 1, 3)))
                with suppress(OSError):  # The run has ended.
                    with socket.create_connection((host, int(port)), 1) as raw:
                        raw.sendall(rng.randbytes(200))
                    self.said[address] += 1
                time.sleep(0.002)

    def stop(self) -> None:
        """End all threads.

        Raises
        ------
        TimeoutError
            when one does not end.
        """
        self.over.set()
        for thread in self._threads:
            thread.join(10)
            if thread.is_alive():
                raise TimeoutError("a stranger does not end")


def _own_sockets() -> Iterator[str]:
    """The launcher's control socket: what this process listens on."""
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN:
            yield f"tcp://{connection.laddr.ip}:{connection.laddr.port}"


class Came(NamedTuple):
    """What came of a run under attack."""

    sockets: int
    frames: int
    steps: int
    lost: int
    """Chunks that were lost or came twice."""
    equal: bool
    """Whether an undisturbed run of as many steps has the same weights."""


def attack(count: int, seed: int, *, encrypt: bool) -> Came:
    """Train while strangers send this many frames to every socket; then train as long undisturbed."""
    ppo = PPOConfig(rollout_steps=16, minibatch_size=32, epochs=2, learning_rate=1e-3)
    # Without restarts: a role that died would end the run instead of being replaced.
    settings: dict[str, Any] = {
        "env": "CartPole-v1",
        "ppo": ppo,
        "actors": 2,
        "envs_per_actor": 4,
        "seed": seed,
        "placement": "apart",
    }
    strangers = Strangers(count, seed)
    attacked = TrainConfig(
        **settings, encrypt=encrypt, restarts=0, checkpoint_seconds=None, stop_steps=10**9, stop_seconds=LONGEST_S
    )
    try:
        result = train(attacked, strangers, cluster=PAIR)
    finally:
        strangers.stop()
    counters = next(report.counters for report in result.reports if report.role == "learner g0")
    quiet = train(TrainConfig(**settings, stop_steps=result.steps))
    return Came(
        sockets=len(strangers.said),
        frames=sum(strangers.said.values()),
        steps=result.steps,
        lost=int(counters["chunks_lost"] + counters["chunks_duplicated"]),
        equal=bool(np.array_equal(result.weights, quiet.weights)),
    )
