"""RLlib's processes on the nodes of a Ray cluster: their placement, and the set-up of workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tianji.launch.node import Cluster

RUNNER, LEARNER = "runner", "learner"
"""Custom resources that a Ray node of a testbed has one of each: who asks for one is alone of its kind on its node."""

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AIR_NEW_OUTPUT": "0"}
"""Environment variables of the driver and of every worker. One thread, because matrices are too small for a thread pool."""


def join(cluster: Cluster) -> None:
    """Make this process the driver of the cluster's Ray cluster, as one on its first node."""
    import ray

    ray.init(
        address=cluster.ray_address,
        _node_ip_address=cluster.nodes[0].address,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": ENVIRONMENT, "worker_process_setup_hook": naming_the_interface()},
    )


def placement(learners: int) -> dict[str, dict[str, Any]]:
    """Arguments for `env_runners` and `learners` of RLlib's configuration that place one of them on each node."""
    runners: dict[str, Any] = {
        "custom_resources_per_env_runner": {RUNNER: 1},
        # The connectors of these workloads have no state; gathering it would cost every iteration a round trip to all.
        "merge_env_runner_states": False,
    }
    return {
        "env_runners": runners,
        "learners": {"custom_resources_per_learner": {LEARNER: 1}} if learners else {},
    }


def naming_the_interface() -> Callable[[], None]:
    """Make a set-up function for workers, which tells Gloo the network interface for exchanging gradients.

    It is the interface of the address by which Ray knows the node. By default Gloo takes the one to which the host's name
    resolves. In a network namespace there is none, and on some distributions it is the loopback. An existing choice is kept.
    """

    # A function within a function travels as code. A worker runs it before it knows where the driver imports from, so it
    # may refer to nothing of this package.
    def name_the_interface() -> None:
        import os
        import socket

        import psutil
        import ray

        own = ray.util.get_node_ip_address()
        for name, addresses in psutil.net_if_addrs().items():
            if any(one.family == socket.AF_INET and one.address == own for one in addresses):
                os.environ.setdefault("GLOO_SOCKET_IFNAME", name)

    return name_the_interface
