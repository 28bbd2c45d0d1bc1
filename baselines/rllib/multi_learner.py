"""RLlib with several learners: data-parallel training, one learner on each node."""

from __future__ import annotations

from baselines.rllib.adapter import ALGORITHMS, RLlib
from baselines.system import Task
from baselines.workload import Workload


class MultiLearnerRLlib(RLlib):
    """RLlib's PPO and DQN with a remote learner on every node; they average their gradients at every step (torch DDP, Gloo).

    All learners together train on the batches that one would train on: a learner's share is that much smaller.
    """

    name = "rllib-multi-learner"
    title = "RLlib, a learner a node"

    def unable_on(self, workload: Workload, nodes: int) -> str | None:
        rows = ALGORITHMS[workload.algo].minibatch(workload)
        if rows % nodes:
            return f"a batch of {rows} rows cannot be dealt out evenly to {nodes} learners, and it must stay the size it is"
        return super().unable_on(workload, nodes)

    def env_runners(self, task: Task) -> int:
        return task.nodes if task.cluster is not None else super().env_runners(task)

    def learners(self, task: Task) -> int:
        return task.nodes
