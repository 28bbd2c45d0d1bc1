"""Stable-Baselines3's PPO, DQN, SAC and TD3, set up as its documentation advises and with the workload's hyper-parameters."""

from __future__ import annotations

import importlib.util
import os
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from baselines.sb3 import translate
from baselines.space import Scalar, Space
from baselines.system import Recorder, System, Task
from baselines.workload import Workload
from tianji.algorithms.networks import Vector

if TYPE_CHECKING:
    from baselines.certificate import Evidence, Frozen


USUAL: dict[str, Scalar] = {"vectoriser": "dummy", "torch_threads": 1}
"""Options of the usual form."""


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
        if workload.network.kind in translate.PICTURES:
            return translate.beyond_pictures(workload)
        return workload.beyond_soft or ("a simulator is not translated to it" if workload.simulator else None)

    def deviations(self, task: Task) -> list[str]:
        return translate.deviations(task.workload)

    def settings(self, task: Task) -> dict[str, Any]:
        return translate.chosen(translate.settings(task.workload, task.seed), self.form(task) | task.options)

    def form(self, task: Task) -> dict[str, Scalar]:
        """The options in which this form differs from the usual one."""
        return {}

    def takes(self, option: str) -> bool:
        return option in ("vectoriser", "torch_threads", "precision")

    def space(self, task: Task) -> Space:
        # Its own defaults are the environments in one process and torch on every core.
        threads = max(2, len(task.cores))
        first: list[dict[str, Scalar]] = [
            {**USUAL, **self.form(task)},
            USUAL,
            {"vectoriser": "dummy", "torch_threads": threads},
            {"vectoriser": "subproc", "torch_threads": 1},
        ]
        choices: dict[str, tuple[Scalar, ...]] = {"vectoriser": tuple(translate.VECTORISERS), "torch_threads": (1, threads)}
        return super().space(task).extended(choices, *(one for i, one in enumerate(first) if one not in first[:i]))

    def certify(self, frozen: Frozen) -> Evidence:
        # Where environments live and how many threads there are has no part in what is computed.
        self._build(Task(self.name, frozen.workload, 0, (0,), options=dict(USUAL)))
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
        if "games" in s:
            self._environments = self._games(w, kinds[s["vec_env_cls"]], task.seed)
        else:
            self._environments = make_vec_env(w.env, vec_env_cls=kinds[s["vec_env_cls"]], **s["make_vec_env"])
        if s.get("vec_normalize"):
            self._environments = VecNormalize(self._environments, **s["vec_normalize"])
        arguments = dict(s["arguments"])
        if s["learning_rate_schedule"] == "linear":
            arguments["learning_rate"] = translate.linear_from_round_start(
                arguments["learning_rate"], w.round_steps, s["total_timesteps"], w.horizon_steps
            )
        if "action_noise" in arguments:
            from stable_baselines3.common.noise import NormalActionNoise

            shape = self._environments.action_space.shape
            arguments["action_noise"] = NormalActionNoise(np.zeros(shape), np.full(shape, arguments["action_noise"]))
        if "train_freq" in arguments:
            arguments["train_freq"] = tuple(arguments["train_freq"])
        make = getattr(self._library(), s["algorithm"])
        self._model = make(s["policy"], self._environments, policy_kwargs=self._policy_kwargs(s), **arguments)
        if s.get("precision") == "bf16":
            self._model.train = self._cast(self._model.train)
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

    def _cast(self, train: Callable[[], None]) -> Callable[[], None]:
        """Its updates under torch's autocast, as its users have them in bfloat16: it has no switch of its own."""
        import torch

        def cast() -> None:
            with torch.autocast("cpu", torch.bfloat16):
                train()

        return cast

    def _evidence(self, frozen: Frozen) -> Evidence:
        """Evidence for the certificate, of the model that is built."""
        from baselines.sb3 import evidence

        return evidence.collect(frozen, self._model)

    def _library(self) -> Any:
        """Module that has its algorithms."""
        import stable_baselines3

        return stable_baselines3

    def _games(self, w: Workload, kind: Any, seed: int) -> Any:
        """Games of Atari with this project's wrappers, stacked by its `VecFrameStack`."""
        from stable_baselines3.common.vec_env import VecFrameStack

        from baselines.sb3.games import make

        environments = kind([partial(make, w.env, w.games)] * w.environments)
        environments.seed(seed)
        return VecFrameStack(environments, w.games.stack)

    def _policy_kwargs(self, settings: dict[str, Any]) -> dict[str, Any]:
        import torch

        if "games" in settings:
            features = {"features_dim": settings["features_dim"]}
            return {"features_extractor_kwargs": features, "net_arch": [], "optimizer_kwargs": settings["optimizer_kwargs"]}
        return {
            "net_arch": settings["net_arch"],
            "activation_fn": getattr(torch.nn, settings["activation_fn"]),
            "optimizer_kwargs": settings["optimizer_kwargs"],
        }

    def _give_weights(self, flat: Vector) -> None:
        from baselines.sb3 import weights

        self._model.policy.load_state_dict(weights.to_sb3(self._network, flat))
        if (learnt := getattr(self._model, "log_ent_coef", None)) is not None:
            learnt.data.fill_(float(self._network.views(flat)["temperature.log"][0]))

    def _weights(self) -> Vector:
        """The flat vector of the policy as it stands."""
        from baselines.sb3 import weights

        return weights.from_sb3(self._network, self._model.policy.state_dict(), self._rest())

    def _rest(self) -> dict[str, Any] | None:
        """Blocks of the network that are no part of its policy; None: there are none."""
        if (temperature := getattr(self._model, "log_ent_coef", None)) is not None:
            return {"temperature.log": temperature.detach().numpy()}
        return self._normaliser()

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
        # Updates of SAC and TD3 are those of their critics.
        trained = getattr(self._model, "critic", None) or self._model.policy
        states = trained.optimizer.state
        return int(next(iter(states.values()))["step"]) if states else 0

    def stop(self) -> None:
        if self._environments is not None:
            self._environments.close()


class Threads(StableBaselines3):
    """The same with torch on all cores, its own default."""

    name = "sb3-threads"
    title = "Stable-Baselines3, all threads"

    def form(self, task: Task) -> dict[str, Scalar]:
        return {"torch_threads": max(1, len(task.cores))}


class Subproc(StableBaselines3):
    """The same with a process for each environment (`SubprocVecEnv`)."""

    name = "sb3-subproc"
    title = "Stable-Baselines3, SubprocVecEnv"

    def form(self, task: Task) -> dict[str, Scalar]:
        return {"vectoriser": "subproc"}


class SubprocThreads(StableBaselines3):
    """The same with both."""

    name = "sb3-subproc-threads"
    title = "Stable-Baselines3, SubprocVecEnv, all threads"

    def form(self, task: Task) -> dict[str, Scalar]:
        return {"vectoriser": "subproc", "torch_threads": max(1, len(task.cores))}
