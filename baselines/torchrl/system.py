"""TorchRL's PPO and asynchronous collectors with the hyper-parameters of a PPO workload; its translation and deviations."""

from __future__ import annotations

from typing import Any

from baselines import normalisation
from baselines.separate.system import SeparateProgram
from baselines.space import Space, equal_parts
from baselines.system import Task
from baselines.workload import Workload

COLLECTORS, THREADS = "collectors", "torch_threads"
"""Its options: processes that sample, and threads of torch in the learner."""


class TorchRL(SeparateProgram):
    """Collectors in processes of their own, which sample while the learner trains, as `tianji-relaxed` does."""

    name = "torchrl"
    title = "TorchRL"
    environment = "torchrl"
    module = "baselines.torchrl.learn"
    gaussians = True

    def unable(self, workload: Workload) -> str | None:
        if (reason := super().unable(workload)) is not None:
            return reason
        ppo = workload.for_ppo
        if ppo.minibatch_size < workload.round_steps and workload.round_steps % ppo.minibatch_size:
            return f"a round of {workload.round_steps} steps is not a whole number of minibatches of {ppo.minibatch_size}"
        return None

    def collectors(self, task: Task) -> int:
        """Collectors: as many as there are cores besides the learner's, at least one."""
        if COLLECTORS in task.options:
            return int(task.options[COLLECTORS])
        return max(equal_parts(task.workload, max(1, len(task.cores) - 1)))

    def takes(self, option: str) -> bool:
        return option in (COLLECTORS, THREADS)

    def space(self, task: Task) -> Space:
        cores = len(task.cores)
        able = equal_parts(task.workload, cores)
        closed = self.collectors(task)
        return (
            super()
            .space(task)
            .extended(
                {COLLECTORS: able, THREADS: (1, max(2, cores))},
                *({COLLECTORS: n, THREADS: 1} for n in dict.fromkeys((closed, *able))),
                {COLLECTORS: closed, THREADS: max(2, cores)},
            )
        )

    def deviations(self, task: Task) -> list[str]:
        told = [
            "It is a toolkit: this project wrote the loop, of TorchRL's collector, advantages and loss, after its example of "
            "asynchronous PPO.",
            "A collector goes on sampling while the learner trains. Weights lie in memory that they share, so a rollout goes "
            "on with what the learner has changed meanwhile, also within a round of updates.",
        ]
        if self.collectors(task) > 1:
            told.append("A round is the batches that arrive first, whichever collectors they come from.")
        if task.workload.normalises_observations:
            told.append(normalisation.MOVING)
        if task.workload.normalises_rewards:
            told.append(normalisation.ALONE)
        if task.workload.for_ppo.normalise_advantages:
            told.append(
                "Advantages are divided by the sample standard deviation of the minibatch (N - 1), not the population's (N)."
            )
        return told

    def settings(self, task: Task) -> dict[str, Any]:
        w, ppo, collectors = task.workload, task.workload.for_ppo, self.collectors(task)
        return {
            "environment": self.around(w),
            "clip_observations": w.normaliser.clip_observations if w.normalises_observations else None,
            "collectors": collectors,
            "environments_per_collector": w.environments // collectors,
            "rollout_steps": ppo.rollout_steps,
            "minibatch_size": min(ppo.minibatch_size, w.round_steps),
            "epochs": ppo.epochs,
            "hidden": list(w.network.hidden),
            "activation": {"tanh": "Tanh", "relu": "ReLU"}[w.network.activation],
            "advantages": {"gamma": ppo.gamma, "lmbda": ppo.gae_lambda, "average_gae": False},
            "loss": {
                "clip_epsilon": ppo.clip,
                "loss_critic_type": "l2",
                "critic_coeff": ppo.value_coefficient,
                "entropy_bonus": ppo.entropy_coefficient > 0,
                "entropy_coeff": ppo.entropy_coefficient,
                "normalize_advantage": ppo.normalise_advantages,
            },
            "adam": {"lr": ppo.learning_rate, "eps": ppo.adam_epsilon},
            # Steps at which the rate is zero; None: it is constant.
            "decay_steps": w.horizon_steps if ppo.learning_rate_schedule == "linear" else None,
            "max_grad_norm": ppo.max_grad_norm,
            "torch_threads": int(task.options.get(THREADS, 1)),
        }
