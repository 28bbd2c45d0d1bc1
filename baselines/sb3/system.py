"""Stable-Baselines3's PPO and DQN, set up as its documentation advises and with the workload's hyper-parameters."""

from __future__ import annotations

import importlib.util
import os
import resource
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from baselines.sb3 import translate
from baselines.space import Space
from baselines.system import Recorder, System, Task
from baselines.workload import Workload
from tianji.algorithms.networks import Vector

if TYPE_CHECKING:
    from baselines.certificate import Evidence, Frozen


class StableBaselines3(System):
    """One process: a vector of environments in it (`DummyVecEnv`), and torch on one thread."""

    name = "sb3"
    title = "Stable-Baselines3"

    def __init__(self) -> None:
        self._model: Any = None
        self._environments: Any = None

    def available(self) -> str | None:
        missing = [name for name in ("stable_baselines3", "torch") if importlib.util.find_spec(name) is None]
        return f"{' and '.join(missing)} not installed" if missing else None

    def unable(self, workload: Workload) -> str | None:
        return workload.beyond_common or ("a simulator is not translated to it" if workload.simulator else None)

    def deviations(self, task: Task) -> list[str]:
        return translate.deviations(task.workload)

    def settings(self, task: Task) -> dict[str, Any]:
        return translate.chosen(translate.settings(task.workload, task.seed), task.options)

    def takes(self, option: str) -> bool:
        return option in ("vectoriser", "torch_threads")

    def space(self, task: Task) -> Space:
        # Its own defaults are the environments in one process and torch on every core.
        threads = max(2, len(task.cores))
        return (
            super()
            .space(task)
            .extended(
                {"vectoriser": tuple(translate.VECTORISERS), "torch_threads": (1, threads)},
                {"vectoriser": "dummy", "torch_threads": 1},
                {"vectoriser": "dummy", "torch_threads": threads},
                {"vectoriser": "subproc", "torch_threads": 1},
            )
        )

    def certify(self, frozen: Frozen) -> Evidence:
        self._build(Task(self.name, frozen.workload, 0, (0,)))
        try:
            return self._evidence(frozen)
        finally:
            self.stop()

    def prepare(self, task: Task, recorder: Recorder) -> None:
        self._build(task)

    def _build(self, task: Task) -> None:
        w, s = task.workload, self.settings(task)
        self._prepare_threads(s)
        from stable_baselines3.common.env_util import make_vec_env
        from stable_baselines3.common.logger import Logger
        from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

        kinds = {"DummyVecEnv": DummyVecEnv, "SubprocVecEnv": SubprocVecEnv}
        self._environments = make_vec_env(w.env, vec_env_cls=kinds[s["vec_env_cls"]], **s["make_vec_env"])
        if s.get("vec_normalize"):
            self._environments = VecNormalize(self._environments, **s["vec_normalize"])
        arguments = dict(s["arguments"])
        if s["learning_rate_schedule"] == "linear":
            arguments["learning_rate"] = translate.linear_from_round_start(
                arguments["learning_rate"], w.round_steps, s["total_timesteps"], w.horizon_steps
            )
        if "train_freq" in arguments:
            arguments["train_freq"] = tuple(arguments["train_freq"])
        make = getattr(self._library(), s["algorithm"])
        self._model = make(s["policy"], self._environments, policy_kwargs=self._policy_kwargs(s), **arguments)
        # Its own logger would leave a folder in /tmp.
        self._model.set_logger(Logger(folder=None, output_formats=[]))
        description = w.describe()
        self._network = w.flat_network(description)
        # Start from the very weights that every other system starts from.
        self._give_weights(self._network.initialise(task.seed))

    def train(self, task: Task, recorder: Recorder) -> None:
        from baselines.sb3.record import Record

        record = Record(recorder, task.workload, self._weights, self._optimizer_steps)
        # Nobody reads its log: it need not make one.
        self._model.learn(self.settings(task)["total_timesteps"], callback=record, log_interval=None)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        busy_s = {name: ns / 1e9 for name, ns in record.busy_ns.items()}
        recorder.process("driver", busy_s, {}, time.process_time(), usage.ru_maxrss * 1024)
        recorder.counter("learner_steps", float(record.steps))
        recorder.counter("learner_optimizer_steps", float(self._optimizer_steps()))

    def _prepare_threads(self, settings: dict[str, Any]) -> None:
        os.environ["OMP_NUM_THREADS"] = str(settings["torch_threads"])
        import torch

        torch.set_num_threads(settings["torch_threads"])

    def _evidence(self, frozen: Frozen) -> Evidence:
        """Evidence for the certificate, of the model that is built."""
        from baselines.sb3 import evidence

        return evidence.collect(frozen, self._model)

    def _library(self) -> Any:
        """Module that has its algorithms."""
        import stable_baselines3

        return stable_baselines3

    def _policy_kwargs(self, settings: dict[str, Any]) -> dict[str, Any]:
        import torch

        return {
            "net_arch": settings["net_arch"],
            "activation_fn": getattr(torch.nn, settings["activation_fn"]),
            "optimizer_kwargs": settings["optimizer_kwargs"],
        }

    def _give_weights(self, flat: Vector) -> None:
        from baselines.sb3 import weights

        self._model.policy.load_state_dict(weights.to_sb3(self._network, flat))

    def _weights(self) -> Vector:
        """The flat vector of the policy as it stands."""
        from baselines.sb3 import weights

        return weights.from_sb3(self._network, self._model.policy.state_dict(), self._normaliser())

    def _normaliser(self) -> dict[str, Any] | None:
        """Blocks by which observations are normalised; None: they are not."""
        normalised = getattr(self._environments, "obs_rms", None)
        if normalised is None or not self._network.normalised:
            return None
        return {
            "normaliser.mean": normalised.mean,
            "normaliser.scale": 1 / np.sqrt(normalised.var + self._environments.epsilon),
            "normaliser.clip": [self._environments.clip_obs],
        }

    def _optimizer_steps(self) -> int:
        """Number of optimizer steps by Adam's count. Its own count of updates is one of epochs in PPO."""
        states = self._model.policy.optimizer.state
        return int(next(iter(states.values()))["step"]) if states else 0

    def stop(self) -> None:
        if self._environments is not None:
            self._environments.close()
