"""The `ray` testbed: the machines of a running Ray cluster, without changes.

`python -m suites.testbed.raycluster ADDRESS COUNT` lists its nodes and measures the links of the first COUNT. It is a separate
process, because Ray leaves threads and connections behind.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import time
from typing import Any

import msgspec
from msgspec import Struct

from programs.cli import ConfigError
from suites.records.events import NodeCheck
from suites.testbed import probe
from suites.testbed.base import Shape
from suites.testbed.loopback import Unlimited
from tianji.launch.node import Cluster, Node

ADDRESS = "RAY_ADDRESS"
ASKING_S, MEASURING_S = 120.0, 300.0
LINK_S = 0.5
_RATE = struct.Struct("=d")


class Found(Struct, frozen=True):
    """Nodes of a cluster and their links."""

    ray_address: str
    home: str
    """Address of the machine that asked."""
    addresses: list[str]
    """Addresses of the living nodes, the head's first."""
    lines: list[probe.Line] = []


class RayCluster(Unlimited):
    """The first nodes of a Ray cluster that is there: where `RAY_ADDRESS` says, or the one that this machine is in.

    Raises
    ------
    ConfigError
        at set-up, when there is none, or it has too few nodes.
    """

    name = "ray"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._address = os.environ.get(ADDRESS, "auto")

    @property
    def cluster(self) -> Cluster:
        nodes = tuple(Node(address) for address in self._found.addresses[: self.shape.nodes])
        return Cluster(nodes, self._found.home, self._found.ray_address)

    @property
    def home(self) -> Node:
        return Node(self._found.home)

    def set_up(self) -> None:
        try:
            self._found = _ask(self._address, 0)
        except RuntimeError as error:
            raise ConfigError(f"testbed ray: {error}") from error
        if (alive := len(self._found.addresses)) < self.shape.nodes:
            raise ConfigError(
                f"testbed ray: the cluster at {self._found.ray_address} has {alive} nodes, not {self.shape.nodes}"
            )

    def take_down(self) -> None:
        """The cluster is not ours."""

    def start_ray(self) -> None:
        """It runs."""

    def check(self) -> list[NodeCheck]:
        lines: list[probe.Line] | list[None] = [None]
        if self.shape.nodes > 1:
            lines = _ask(self._address, self.shape.nodes).lines
        return self.checks(lines)

    def deviations(self) -> list[str]:
        return ["nodes are those of a Ray cluster, as they are", *self.not_given()]


def _ask(address: str, measured: int) -> Found:
    """Ask in a separate process. RuntimeError, in one line, if there is no answer."""
    limit_s = MEASURING_S if measured else ASKING_S
    try:
        asked = subprocess.run(
            [sys.executable, "-m", "suites.testbed.raycluster", address, str(measured)],
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no answer from the Ray cluster at {address} in {limit_s:.0f} s") from None
    if asked.returncode != 0:
        lines = asked.stderr.strip().splitlines()
        raise RuntimeError(f"no Ray cluster at {address}: {lines[-1] if lines else f'status {asked.returncode}'}")
    return msgspec.json.decode(asked.stdout.splitlines()[-1], type=Found)


class Prober:
    """The Ray actor that is one end of a link, on its node."""

    def __init__(self, address: str) -> None:
        self._server = socket.create_server((address, 0))
        self._server.settimeout(probe.LIMIT_S)

    def where(self) -> tuple[str, int]:
        """Address at which it listens."""
        address, port = self._server.getsockname()
        return address, port

    def answer(self) -> None:
        """Send single bytes back, then read a stream, and say how fast it came."""
        with self._server.accept()[0] as peer:
            peer.settimeout(probe.LIMIT_S)
            for _ in range(probe.ROUND_TRIPS):
                peer.send(peer.recv(1))
            peer.sendall(_RATE.pack(probe.received_per_s(peer)))

    def measure(self, address: str, port: int) -> tuple[float, float]:
        """Bits a second to another one, and the round trip, its processes' waking up included."""
        took = []
        with socket.create_connection((address, port), probe.LIMIT_S) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(probe.ROUND_TRIPS):
                begun = time.perf_counter()
                peer.send(b"?")
                peer.recv(1)
                took.append(time.perf_counter() - begun)
            probe.fill(peer, LINK_S)
            (bytes_per_s,) = _RATE.unpack(peer.recv(_RATE.size, socket.MSG_WAITALL))
        return bytes_per_s * 8 * probe.FRAME_SHARE, statistics.median(took)


def _measure(ray: Any, nodes: list[dict[str, Any]]) -> list[probe.Line]:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote = ray.remote(num_cpus=0, max_concurrency=2)(Prober)
    probers = [
        remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
            node["NodeManagerAddress"]
        )
        for node in nodes
    ]
    lines = []
    for number, prober in enumerate(probers):
        peer = probers[(number + 1) % len(probers)]
        answering = peer.answer.remote()
        lines.append(probe.Line(*ray.get(prober.measure.remote(*ray.get(peer.where.remote())), timeout=60)))
        ray.get(answering, timeout=60)
    return lines


def main(address: str, measured: int) -> None:
    """Print what there is to find, as JSON."""
    import ray

    if address != "auto":
        # Ray itself would go on asking for minutes.
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), probe.LIMIT_S).close()
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    try:
        context = ray.get_runtime_context()
        head = context.gcs_address.rpartition(":")[0]
        alive = sorted(
            (node for node in ray.nodes() if node["Alive"]),
            key=lambda node: (node["NodeManagerAddress"] != head, node["NodeManagerAddress"]),
        )
        lines = _measure(ray, alive[:measured]) if measured > 1 else []
        found = Found(context.gcs_address, ray.util.get_node_ip_address(), [n["NodeManagerAddress"] for n in alive], lines)
        print("\n" + json.dumps(msgspec.to_builtins(found)))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    # By its name, by which workers of Ray's find it too.
    from suites.testbed import raycluster

    try:
        raycluster.main(sys.argv[1], int(sys.argv[2]))
    except Exception as error:  # Whatever it is, it is the answer.
        print(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}", file=sys.stderr)
        sys.exit(1)
