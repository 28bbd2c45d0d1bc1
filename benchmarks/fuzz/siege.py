"""A run on two hosts with keys, while strangers try every port that it has: what got in, what it cost, whether memory grew.

`live` sends frames to the sockets that roles tell of. Here every port on which a process of the run listens is attacked, also
those that only a session names, in ten ways. Strangers may connect, which no key prevents; they do not have the keys.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import numpy as np
import psutil
import zmq

from benchmarks.fuzz import frames
from benchmarks.fuzz.live import PAIR
from tianji.config import TrainConfig
from tianji.hyperparameters import PPOConfig
from tianji.messages import PROTOCOL, Join, PortsOpen, encode
from tianji.run.training import train

THREADS = 4
PAUSE_S = 0.02
"""Seconds that a thread sleeps after each try, because strangers have the same two cores as the run."""
LOOK_S = 0.5
HELD = 40
"""Connections that one thread keeps open without a word."""
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)
"""What a peer says first (RFC 23/ZMTP)."""
PLAIN = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)

Way = Callable[["Siege", random.Random, str, int], None]


def _raw(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), 1.0)


def _noise(siege: Siege, rng: random.Random, host: str, port: int) -> None:
    with _raw(host, port) as one:
        one.sendall(rng.randbytes(rng.choice((1, 16, 200, 5000))))


def _cut_greeting(siege: Siege, rng: random.Random, host: str, port: int) -> None:
    with _raw(host, port) as one:
        one.sendall((GREETING if rng.random() < 0.5 else PLAIN)[: rng.randrange(1, 64)])


def _greeting_and_noise(siege: Siege, rng: random.Random, host: str, port: int) -> None:
    with _raw(host, port) as one:
        one.sendall(GREETING + rng.randbytes(rng.choice((2, 64, 202))))


def _oversize(siege: Siege, rng: random.Random, host: str, port: int) -> None:
    # A command, or a frame, of 2^62 bytes.
    with _raw(host, port) as one:
        one.sendall(rng.choice((GREETING, PLAIN)) + rng.choice((b"\x06", b"\x02")) + (1 << 62).to_bytes(8, "big") + bytes(64))


def _token(siege: Siege, rng: random.Random, host: str, port: int) -> None:
    """What a second port expects, guessed, and a record."""
    with _raw(host, port) as one:
        one.sendall(rng.randbytes(16) + (rng.randrange(1 << 20)).to_bytes(4, "little") + rng.randbytes(100))


def _silent(siege: Siege, rng: random.Random, host: str, port: int) -> None:
    siege.hold(_raw(host, port))


def _slow(siege: Siege, rng: random.Random, host: str, port: int) -> None:
    """A byte of a greeting, and another one with each later try."""
    one = _raw(host, port)
    one.sendall(GREETING[:1])
    siege.hold(one)


def _replay(siege: Siege, rng: random.Random, host: str, port: int) -> None:
    """The same first command of a handshake, many times and on many connections."""
    with _raw(host, port) as one:
        one.sendall(GREETING + siege.hello + siege.hello)


def _with_zmq(host: str, port: int, prepare: Callable[[zmq.Socket[bytes]], None], rng: random.Random) -> None:
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.linger, stranger.sndtimeo, stranger.rcvtimeo = 0, 20, 20
        prepare(stranger)
        stranger.connect(f"tcp://{host}:{port}")
        with suppress(zmq.Again):
            stranger.send(encode(Join(PROTOCOL, rng.getrandbits(60), 0, 0, 8, 64)))
            stranger.send(frames.mutate(rng))
        with suppress(zmq.Again):
            stranger.recv()
            raise AssertionError(f"port {port} answered a stranger")


def _no_key(siege: Siege, rng: random.Random, host: str, port: int) -> None:
    _with_zmq(host, port, lambda socket: None, rng)


def _wrong_key(siege: Siege, rng: random.Random, host: str, port: int) -> None:
    def prepare(socket: zmq.Socket[bytes]) -> None:
        socket.curve_serverkey = zmq.curve_keypair()[0]
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()

    _with_zmq(host, port, prepare, rng)


WAYS: Mapping[str, Way] = {
    "noise": _noise,
    "cut greeting": _cut_greeting,
    "greeting, then noise": _greeting_and_noise,
    "oversize": _oversize,
    "guessed token": _token,
    "silent": _silent,
    "slow": _slow,
    "replayed handshake": _replay,
    "no key": _no_key,
    "wrong key": _wrong_key,
}


class Siege:
    """Listener of a run, which is attacked from its first open port on until it has trained for so many seconds."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.seconds, self._seed = seconds, seed
        self.tried: Counter[str] = Counter()
        self.answered: list[str] = []
        self.ports: set[tuple[str, int]] = set()
        self.memory: list[tuple[float, int]] = []
        """Seconds, and resident bytes of the run's processes."""
        self.hello = random.Random(seed).randbytes(202)
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._held: list[socket.socket] = []
        self._lock = threading.Lock()
        self._began: float | None = None

    def __call__(self, message: Any) -> str | None:
        if isinstance(message, PortsOpen) and not self._threads:
            self._began = time.monotonic()
            self._look()
            work = [self._watch, *(lambda number=number: self._try(number) for number in range(THREADS))]
            self._threads = [threading.Thread(target=one, daemon=True) for one in work]
            for thread in self._threads:
                thread.start()
        late = self._began is not None and time.monotonic() > self._began + self.seconds
        return "the siege is over" if late else None

    def _look(self) -> None:
        """Find every port on which a process of the run listens, and how much memory all have."""
        own = psutil.Process()
        resident = 0
        for process in own.children(recursive=True):
            with suppress(psutil.Error):
                resident += process.memory_info().rss
        for process in [own, *own.children(recursive=True)]:
            with suppress(psutil.Error):
                for one in process.net_connections("tcp"):
                    if one.status == psutil.CONN_LISTEN:
                        self.ports.add((one.laddr.ip, one.laddr.port))
        assert self._began is not None
        self.memory.append((time.monotonic() - self._began, resident))

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            self._look()

    def _try(self, number: int) -> None:
        rng = random.Random(f"{self._seed} {number}")
        while not self._over.is_set():
            way = rng.choice(list(WAYS))
            host, port = rng.choice(sorted(self.ports))
            try:
                WAYS[way](self, rng, host, port)
            except OSError:
                pass  # Refused, reset, or hung up on: that is an answer, too.
            except AssertionError as error:
                self.answered.append(f"{way}: {error}")
            with self._lock:
                self.tried[way] += 1
            self._over.wait(PAUSE_S)

    def hold(self, connection: socket.socket) -> None:
        """Keep a connection open. The oldest one beyond `HELD` is closed."""
        with self._lock:
            self._held.append(connection)
            gone = self._held.pop(0) if len(self._held) > HELD else None
        if gone is not None:
            gone.close()

    def stop(self) -> None:
        """End all threads.

        Raises
        ------
        TimeoutError
            when one does not end.
        """
        self._over.set()
        with ExitStack() as stack:
            for connection in self._held:
                stack.callback(connection.close)
            for thread in self._threads:
                thread.join(10)
                if thread.is_alive():
                    raise TimeoutError("a stranger does not end")


class Outcome(NamedTuple):
    """What came of one run under siege, beside an undisturbed one of as many steps."""

    ports: int
    tried: Mapping[str, int]
    answered: list[str]
    refused: int
    """Connections and messages that the run counted as refused or invalid."""
    lost: int
    """Chunks lost or doubled, processes started again, and sessions that were lost before the end of the run."""
    equal: bool
    """Whether both have the same weights."""
    speed: float
    """Its steps a second over those of the undisturbed run."""
    growth: float
    """Resident memory in its last fifth over that in its second fifth."""


def besieged(seconds: float, seed: int) -> Outcome:
    """Train under siege for so long, then the same number of steps undisturbed."""
    settings: dict[str, Any] = {
        "env": "CartPole-v1",
        "ppo": PPOConfig(rollout_steps=32, minibatch_size=64, epochs=4, learning_rate=1e-3),
        "actors": 2,
        "envs_per_actor": 4,
        "seed": seed,
        "placement": "apart",
        "encrypt": True,
        "checkpoint_seconds": None,
    }
    siege = Siege(seconds, seed)
    try:
        result = train(TrainConfig(**settings, stop_steps=10**9), siege, cluster=PAIR)
    finally:
        siege.stop()
    quiet = train(TrainConfig(**settings, stop_steps=result.steps), cluster=PAIR)
    total: Counter[str] = Counter()
    for report in result.reports:
        total.update({name: int(value) for name, value in report.counters.items() if value})
    # The end of a run may find an actor before it has heard that its learner has left.
    ended = [max(0, int(report.counters.get("channel_sessions_lost", 0)) - 1) for report in result.reports]
    names = ("refused", "malformed", "oversized", "uncredited", "unknown", "late")
    parts = np.array_split(np.array([size for _, size in siege.memory], float), 5)
    return Outcome(
        ports=len(siege.ports),
        tried=dict(siege.tried),
        answered=siege.answered,
        refused=sum(total[f"channel_{name}"] for name in names),
        lost=total["chunks_lost"] + total["chunks_duplicated"] + len(result.restarts) + sum(ended),
        equal=bool(np.array_equal(result.weights, quiet.weights)),
        speed=(result.steps / result.seconds) / (quiet.steps / quiet.seconds),
        growth=float(parts[-1].mean() / parts[1].mean()),
    )
