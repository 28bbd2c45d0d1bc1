"""Trains with RLlib's learners on a Ray cluster of two nodes, and prints what came of it as JSON.

A process for itself: Ray leaves connections open in whatever process it was used in.
"""

import json
import sys
from pathlib import Path

import msgspec
import numpy as np
import ray

from baselines.recorder import FileRecorder
from baselines.rllib.adapter import MODULE
from baselines.rllib.multi_learner import MultiLearnerRLlib
from baselines.system import Task
from suites.session import catalogue
from tianji.launch.node import Cluster, Node


def where(_):
    return ray.get_runtime_context().get_node_id()


def main(cluster, folder):
    whole = catalogue.load("cartpole-ppo-zoo")
    ppo = msgspec.structs.replace(whole.ppo, epochs=2, minibatch_size=64)
    workload = msgspec.structs.replace(whole, environments=4, budget_steps=700, ppo=ppo)
    system = MultiLearnerRLlib()
    try:
        address = cluster["address"].split(":")[0]
        task = Task(system.name, workload, 0, (0, 1), Cluster((Node(address),) * 2, address, cluster["address"]))
        with FileRecorder(Path(folder), workload) as recorder:
            system.prepare(task, recorder)
            system.train(task, recorder)
        algorithm = system._algorithm
        learners = algorithm.learner_group.foreach_learner(
            lambda learner: (ray.get_runtime_context().get_node_id(), learner.module[MODULE].get_state())
        )
        states = [one.get()[1] for one in learners]
        result = {
            "nodes": len({node["NodeID"] for node in ray.nodes()}),
            "runners": algorithm.env_runner_group.foreach_env_runner(where, local_env_runner=False),
            "learners": [one.get()[0] for one in learners],
            "alike": all(np.array_equal(states[0][name], states[1][name]) for name in states[0]),
        }
    finally:
        system.stop()
    print("\n" + json.dumps(result))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
