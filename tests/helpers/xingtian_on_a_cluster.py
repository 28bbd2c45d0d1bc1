"""XingTian's discipline on a Ray cluster of two nodes of its own; what came of it is printed as JSON.

A process for itself: Ray leaves connections open in whatever process it was used in.
"""

import json
import os
import signal
import sys

import psutil
import ray
from ray.cluster_utils import Cluster as RayCluster
from small_runs import LONG, PPO, Memory

from baselines import system
from tianji.launch.node import Cluster, Node
from tianji.launch.supervisor import RoleFailed


def of_mine(name):
    return [child for child in psutil.Process().children(recursive=True) if child.name() == f"xt-{name}"[:15]]


def kill_the_second_broker():
    for process in of_mine("broker 1"):
        os.kill(process.pid, signal.SIGKILL)


def train(workload, cluster, on_snapshot=None):
    memory, under_test = Memory(), system.get("xingtian")
    memory.on_snapshot = on_snapshot
    under_test.train(system.Task("xingtian", workload, 3, (0, 1), cluster), memory)
    return memory


def main(folder):
    head = {"num_cpus": 2, "temp_dir": folder, "include_dashboard": False}
    nodes = RayCluster(initialize_head=True, head_node_args=head)
    try:
        nodes.add_node(num_cpus=1)
        nodes.wait_for_nodes()
        address = nodes.address.rpartition(":")[0]
        cluster = Cluster((Node(address, cores=1.0), Node(address, cores=1.0)), home=address, ray_address=nodes.address)
        told = train(PPO, cluster)
        try:
            cause = str(train(LONG, cluster, kill_the_second_broker).processes)
        except RoleFailed as error:
            cause = str(error)
        left = [name for name in ("learner", "broker 0", "broker 1", "explorer 0", "explorer 1") if of_mine(name)]
    finally:
        ray.shutdown()
        nodes.shutdown()
    weights = [weights.tolist() for *_, weights in told.snapshots]
    print("\n" + json.dumps({"weights": weights, "processes": sorted(told.processes), "cause": cause, "left": left}))


if __name__ == "__main__":
    main(sys.argv[1])
