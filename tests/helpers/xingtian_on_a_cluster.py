"""XingTian's discipline on a Ray cluster of two nodes; what came of it is printed as JSON.

A process for itself: Ray leaves connections open in whatever process it was used in.
"""

import json
import sys

import ray
from descendants import kill, left
from small_runs import LONG, PPO, Memory

from baselines import system
from tianji.launch.events import RoleFailed
from tianji.launch.node import Cluster, Node


def train(workload, cluster, on_snapshot=None):
    memory, under_test = Memory(), system.get("xingtian")
    memory.on_snapshot = on_snapshot
    under_test.train(system.Task("xingtian", workload, 3, (0, 1), cluster), memory)
    return memory


def main(ray_nodes):
    root = ray_nodes["pid"]
    try:
        address = ray_nodes["address"].rpartition(":")[0]
        cluster = Cluster((Node(address, cores=1.0), Node(address, cores=1.0)), home=address, ray_address=ray_nodes["address"])
        told = train(PPO, cluster)
        try:
            cause = str(train(LONG, cluster, lambda: kill("xt-broker 1", root)).processes)
        except RoleFailed as error:
            cause = str(error)
        remain = left(["xt-learner", "xt-broker 0", "xt-broker 1", "xt-explorer 0", "xt-explorer 1"], root)
    finally:
        ray.shutdown()
    weights = [weights.tolist() for *_, weights in told.snapshots]
    print("\n" + json.dumps({"weights": weights, "processes": sorted(told.processes), "cause": cause, "left": remain}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
