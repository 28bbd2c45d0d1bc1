"""Ray's object store, by the pattern of RLlib: the learner's process asks env runners to sample and takes what is ready.

Each explorer has several requests in flight, so that it never waits for the next one. Its results go into the store of its
node, from which the learner reads them in place. Weights are put into the store once and handed to all.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suites.transmission.pipe import Broadcast, Message, Pipe, Samples, Setting, payload, read
from suites.transmission.traffic import in_flight
from tianji.launch.node import Node

REQUESTS = 16
"""Under way to each explorer, where the bound on messages in flight is not lower (docs/notebook/2026-11-speed.md)."""
SMALLEST_STORE_BYTES = 512 << 20
START_S = 90.0
"""For a node to start, and for all explorers to."""
EXPLORERS = "explorers"
"""The resource that says on which node explorers may run."""


class RayStore(Pipe):
    """Ray's actors and objects."""

    name, title = "ray-store", "Ray's object store"

    @classmethod
    def available(cls) -> str | None:
        return "ray is not installed" if importlib.util.find_spec("ray") is None else None

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"requests_in_flight": REQUESTS, "object_store": "twice what is in flight, preallocated", "dashboard": False}

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._actors: list[Any] = []

    def start(self) -> None:
        os.environ |= {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
            # Its store then has its pages before the first object comes.
            "RAY_preallocate_plasma_memory": "1",
        }
        import ray

        room = {EXPLORERS: float(self.setting.explorers)}
        quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        if self.setting.apart:
            ray.init(address=self._start_cluster(room), _node_ip_address=self.setting.learner.address, **quiet)
        else:
            ray.init(
                num_cpus=max(2, self.setting.cores),
                resources=room,
                include_dashboard=False,
                object_store_memory=self._store_bytes(),
                _temp_dir=tempfile.mkdtemp(prefix="r-"),
                **quiet,
            )
        # They stay for all sizes: env runners live as long as a training run.
        explorer = ray.remote(num_cpus=0, resources={EXPLORERS: 1.0})(_Explorer)
        self._actors = [explorer.remote() for _ in range(self.setting.explorers)]
        # Ray places them when the node that has room for them has joined.
        ray.get([actor.ready.remote() for actor in self._actors], timeout=START_S)

    def _start_cluster(self, room: dict[str, float]) -> str:
        """Start a Ray node on either host; the address of the cluster."""
        learner, port = self.setting.learner, 6379  # Of a network that is ours alone.
        head = ["--head", f"--port={port}", "--include-dashboard=false", "--disable-usage-stats"]
        self._start_node(learner, [*head, f"--temp-dir={tempfile.mkdtemp(prefix='r-')}"])
        address = f"{learner.address}:{port}"
        self._start_node(self.setting.beyond, [f"--address={address}", f"--resources={json.dumps(room)}"])
        return address

    def _store_bytes(self) -> int:
        n = self.setting.explorers
        under_way = [min(REQUESTS, in_flight(size, n)) * n * size for size in self.setting.sizes]
        return max(SMALLEST_STORE_BYTES, 2 * max(under_way))

    def _start_node(self, node: Node, options: Sequence[str]) -> None:
        command = [str(Path(sysconfig.get_path("scripts")) / "ray"), "start", *options]
        command += [f"--node-ip-address={node.address}", "--num-cpus=8", f"--object-store-memory={self._store_bytes()}"]
        started = node.popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = started.communicate(timeout=START_S)
        if started.returncode != 0:
            raise RuntimeError(f"ray start failed: {said.decode(errors='replace').strip().splitlines()[-1:]}")

    def stop(self) -> None:
        if "ray" in sys.modules:
            import ray

            ray.shutdown()

    @contextmanager
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        self._prepare(size_bytes)
        yield _Samples(self._actors, min(REQUESTS, in_flight(size_bytes, self.setting.explorers)))

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Broadcast]:
        self._prepare(size_bytes)
        import ray

        def broadcast(version: int, vector: NDArray[np.float32]) -> None:
            reference = ray.put(vector)
            ray.get([actor.set_weights.remote(reference, version) for actor in self._actors])

        yield broadcast

    def _prepare(self, size_bytes: int) -> None:
        import ray

        ray.get([actor.prepare.remote(size_bytes) for actor in self._actors])


class _Explorer:
    """The actor."""

    def ready(self) -> None:
        pass

    def prepare(self, size_bytes: int) -> None:
        self.source, self.out = payload(size_bytes), np.zeros(size_bytes // 4, np.float32)

    def sample(self) -> Message:
        return self.source

    def set_weights(self, vector: NDArray[np.float32], version: int) -> None:
        self.out[:] = vector
        if self.out[0] != version or self.out[-1] != version:
            raise ValueError(f"vector {version} came as {self.out[0]} to {self.out[-1]}")


class _Samples:
    def __init__(self, actors: Sequence[Any], requests: int) -> None:
        self._actors, self._requests = actors, requests
        self._left: dict[Any, int] = {}
        self._pending: dict[Any, Any] = {}

    def begin(self, each: int) -> None:
        self._left = dict.fromkeys(self._actors, each)
        # One to everybody before the second to anybody.
        for _ in range(min(self._requests, each)):
            for actor in self._actors:
                self._request(actor)

    def _request(self, actor: Any) -> None:
        if self._left[actor]:
            self._left[actor] -= 1
            self._pending[actor.sample.remote()] = actor

    def release(self) -> None:
        pass

    def receive(self) -> Sequence[Message]:
        import ray

        ready, _ = ray.wait(list(self._pending), num_returns=1)
        if len(ready) < len(self._pending):
            # All that has come by now, with one call.
            ready, _ = ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0)
        for reference in ready:
            self._request(self._pending.pop(reference))
        bodies: list[Message] = ray.get(ready)
        return bodies

    def round_trips(self, number: int) -> Sequence[int]:
        import ray

        took = []
        (actor,) = self._actors
        for _ in range(number):
            before = time.perf_counter_ns()
            read(ray.get(actor.sample.remote()))
            took.append(time.perf_counter_ns() - before)
        return took
