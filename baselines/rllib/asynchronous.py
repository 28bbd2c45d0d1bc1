"""RLlib's asynchronous algorithms, APPO and IMPALA: env runners in processes of their own, and the learner in the driver."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from baselines.rllib import appo, impala
from baselines.rllib.adapter import RUNNERS, RLlib
from baselines.rllib.stopwatch import Stopwatch
from baselines.system import Recorder, Task
from baselines.workload import Workload

if TYPE_CHECKING:
    from baselines.certificate import Evidence, Frozen


class AsynchronousRLlib(RLlib):
    """What both have in common. They run on one host."""

    needs_ray = False
    gaussians = False
    runners = (1, 2)

    def unable_on(self, workload: Workload, nodes: int) -> str | None:
        return None if nodes == 1 else "it runs on one host"

    def env_runners(self, task: Task) -> int:
        """Remote env runners: as many as there are cores besides the learner's, at least one."""
        if RUNNERS in task.options:
            return int(task.options[RUNNERS])
        most = max(1, len(task.cores) - 1)
        return max(n for n in range(1, most + 1) if task.workload.environments % n == 0)

    def prepare(self, task: Task, recorder: Recorder) -> None:
        super().prepare(task, recorder)
        import ray

        # An env runner's first fragment waits until the process that holds the weights has started. That is set-up.
        ray.get(self._algorithm._env_runner_state_server.__ray_ready__.remote())

    def iteration_steps(self, workload: Workload) -> int:
        # Else an iteration could end with no fragment at all.
        return workload.round_steps

    def optimizer_steps(self, workload: Workload, before: int, rows: int) -> int:
        """Count of Adam's steps: batches differ in their artificial rows."""
        (optimizer,) = self._algorithm.learner_group._learner._named_optimizers.values()
        return int(next(iter(optimizer.state.values()))["step"]) if optimizer.state else 0

    def certify(self, frozen: Frozen) -> Evidence | None:
        return None  # V-trace's targets and APPO's loss are other quantities than PPO's.

    def _watch(self, *, remote: bool) -> Stopwatch:
        watch, group = Stopwatch(), self._algorithm.env_runner_group
        watch.watch(self._algorithm, "train", "all")
        watch.watch(group, "foreach_env_runner_async_fetch_ready", "samples")
        return watch


class RLlibAPPO(AsynchronousRLlib):
    """RLlib's APPO with the hyper-parameters of a PPO workload: asynchronous PPO, as `tianji-relaxed` is."""

    name = "rllib-appo"
    title = "RLlib APPO"

    def unable(self, workload: Workload) -> str | None:
        if workload.algo != "ppo":
            return "it trains workloads of PPO"
        c = workload.for_ppo
        if c.minibatch_size < workload.round_steps and c.minibatch_size % c.rollout_steps:
            return f"minibatches of {c.minibatch_size} rows are not whole rollouts of {c.rollout_steps} steps"
        return super().unable(workload)

    def translation(self, workload: Workload) -> ModuleType:
        return appo


class RLlibIMPALA(AsynchronousRLlib):
    """RLlib's IMPALA with the hyper-parameters of an IMPALA workload."""

    name = "rllib-impala"
    title = "RLlib IMPALA"

    def unable(self, workload: Workload) -> str | None:
        if workload.algo != "impala":
            return "it trains workloads of IMPALA"
        return (
            workload.beyond_choices
            or workload.beyond_all
            or ("pictures are not translated to it" if workload.pictures else None)
        )

    def translation(self, workload: Workload) -> ModuleType:
        return impala
