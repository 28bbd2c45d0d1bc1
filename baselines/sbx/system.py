"""SBX's PPO, DQN and SAC, with the workload's hyper-parameters. It is Stable-Baselines3 but for what JAX computes."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from baselines import environments
from baselines.sb3.system import StableBaselines3
from baselines.sb3.translate import VECTORISERS, chosen
from baselines.sbx import translate, weights
from baselines.space import Space, of_workload
from baselines.system import Recorder, Task
from baselines.workload import Workload
from tianji.algorithms.networks import Vector

if TYPE_CHECKING:
    from baselines.certificate import Evidence, Frozen

ENVIRONMENT = "sbx"


class SBX(StableBaselines3):
    """One process: a vector of environments in it (`DummyVecEnv`), and XLA on one thread."""

    name = "sbx"
    title = "SBX"

    def interpreter(self) -> list[str]:
        return [str(environments.python(ENVIRONMENT))]

    def available(self) -> str | None:
        return environments.missing(ENVIRONMENT)

    def unable(self, workload: Workload) -> str | None:
        return workload.beyond_soft or super().unable(workload) or translate.unable(workload)

    def deviations(self, task: Task) -> list[str]:
        return translate.deviations(task.workload)

    def settings(self, task: Task) -> dict[str, Any]:
        return chosen(translate.settings(task.workload, task.seed), task.options)

    def takes(self, option: str) -> bool:
        return option == "vectoriser"

    def space(self, task: Task) -> Space:
        choices = {"vectoriser": tuple(VECTORISERS)}
        return of_workload(task.workload).extended(choices, *({"vectoriser": kind} for kind in VECTORISERS))

    def prepare(self, task: Task, recorder: Recorder) -> None:
        self._build(task)
        from baselines.sbx import compilation

        self._watch = compilation.Watch()
        began = time.perf_counter()
        compilation.compile_ahead(self._model)
        recorder.counter("compile_s", time.perf_counter() - began)
        self._watch.seconds = 0.0

    def train(self, task: Task, recorder: Recorder) -> None:
        super().train(task, recorder)
        recorder.counter("compile_while_training_s", self._watch.seconds)

    def _prepare_threads(self, settings: dict[str, Any]) -> None:
        super()._prepare_threads(settings)
        os.environ["XLA_FLAGS"] = settings["xla_flags"]
        # No other device: the workload is trained on the CPU by every system.
        os.environ["JAX_PLATFORMS"] = "cpu"

    def _evidence(self, frozen: Frozen) -> Evidence:
        from baselines.sbx import evidence

        return evidence.collect(frozen, self._model)

    def _library(self) -> Any:
        import sbx

        return sbx

    def _policy_kwargs(self, settings: dict[str, Any]) -> dict[str, Any]:
        import flax.linen
        import optax

        def clipped_adam(learning_rate: float, eps: float, max_grad_norm: float) -> Any:
            return optax.chain(optax.clip_by_global_norm(max_grad_norm), optax.adam(learning_rate, eps=eps))

        optimizer = settings["optimizer_kwargs"]
        return {
            "net_arch": settings["net_arch"],
            "activation_fn": getattr(flax.linen, settings["activation_fn"]),
            "optimizer_class": clipped_adam if "max_grad_norm" in optimizer else optax.adam,
            "optimizer_kwargs": optimizer,
        }

    def _give_weights(self, flat: Vector) -> None:
        from baselines.sbx import state

        state.give(self._model, self._network, flat)

    def _weights(self) -> Vector:
        from baselines.sbx import state

        towers = {tower: one.params for tower, one in state.towers(self._model.policy).items()}
        return weights.from_flax(self._network, towers, self._rest())

    def _rest(self) -> dict[str, Any] | None:
        if (learnt := getattr(self._model, "ent_coef_state", None)) is not None:
            return {"temperature.log": weights.temperature(learnt)}
        return self._normaliser()

    def _optimizer_steps(self) -> int:
        from baselines.sbx import state

        return int(next(iter(state.towers(self._model.policy).values())).step)


class Threads(SBX):
    """The same with XLA on all cores, its own default."""

    name = "sbx-threads"
    title = "SBX, all threads"

    def settings(self, task: Task) -> dict[str, Any]:
        return super().settings(task) | {"xla_flags": "", "torch_threads": max(1, len(task.cores))}
