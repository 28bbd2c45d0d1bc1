"""Trains the task of this folder with TorchRL, in an interpreter that has it and nothing of this project."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torch import nn
from torchrl.collectors import MultiAsyncCollector
from torchrl.envs import ClipTransform, DoubleToFloat, GymWrapper, SerialEnv, TransformedEnv
from torchrl.envs.transforms import VecNormV2
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from baselines.separate.counted import Counts, make
from baselines.separate.run import Run, Tensors

CLOSE_S = 3.0
"""Seconds that collectors have to end in order. Its own default is more than a stop request allows."""
STATISTICS, LOCK = "statistics", "statistics.lock"
"""A folder that collectors and driver map, with the statistics by which observations are normalised, and who may change it."""
LEAST = 1e-4
"""Smallest deviation by which an observation is divided."""
SCALE = "policy.log_scale"
Towers = dict[str, Any]
"""The networks, by our names, `policy` and `value`; and of actions that are numbers the deviation, `scale`."""


class FileLock:
    """A lock between processes that know no more of one another than a folder."""

    def __init__(self, file: str) -> None:
        self._file = Path(file).open("a")  # noqa: SIM115 (open as long as the lock)

    def acquire(self) -> None:
        """Wait for it."""
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        """Give it back."""
        fcntl.flock(self._file, fcntl.LOCK_UN)


def make_statistics(features: int) -> None:
    """Make the folder of statistics, of nothing yet."""
    zeros = {name: TensorDict({"observation": torch.zeros(features)}) for name in ("loc", "var")}
    TensorDict(zeros | {"count": TensorDict({"observation": torch.zeros((), dtype=torch.int64)})}).memmap_(STATISTICS)


def normaliser(clip: float) -> Tensors:
    """The blocks by which observations are normalised, as they are now."""
    known = TensorDict.load_memmap(STATISTICS)
    count, mean, square = (known[name]["observation"].clone() for name in ("count", "loc", "var"))
    deviation = (square - mean.pow(2)).sqrt().clamp_min(LEAST) if count else torch.ones_like(mean)
    return {
        "normaliser.mean": mean.numpy(),
        "normaliser.scale": 1 / deviation.numpy(),
        "normaliser.clip": np.full(1, clip, np.float32),
    }


def make_environment(name: str, index: int, environments: int, seed: int) -> Any:
    """One environment."""
    return GymWrapper(make(name, index, environments, seed), categorical_action_encoding=True)


def make_environments(name: str, first: int, number: int, environments: int, seed: int, clip: float | None) -> Any:
    """A collector's environments, which are stepped one after the other.

    Parameters
    ----------
    clip
        largest absolute value of a normalised observation; None: they are not normalised.
    """
    makers = [partial(make_environment, name, first + i, environments, seed) for i in range(number)]
    made = SerialEnv(number, makers)
    if made.observation_spec["observation"].dtype == torch.float64:
        made = TransformedEnv(made, DoubleToFloat(in_keys=["observation"]))
    if clip is None:
        return made
    shared = {"shared_data": TensorDict.load_memmap(STATISTICS), "lock": FileLock(LOCK), "reduce_batch_dims": True}
    made = TransformedEnv(made, VecNormV2(["observation"], decay=1.0, eps=LEAST, **shared))
    made.append_transform(ClipTransform(["observation"], low=-clip, high=clip))
    return made


def make_towers(initial: Tensors, settings: dict[str, Any]) -> Towers:
    """Both networks, with the weights that every system begins with. torch's layers hold [outputs, inputs]."""
    depth, activation, towers = len(settings["hidden"]), getattr(nn, settings["activation"]), {}
    for tower in ("policy", "value"):
        inputs, outputs = initial[f"{tower}.0.kernel"].shape[0], initial[f"{tower}.{depth}.kernel"].shape[1]
        towers[tower] = MLP(inputs, outputs, num_cells=settings["hidden"], activation_class=activation)
        with torch.no_grad():
            for layer, linear in enumerate(linears(towers[tower])):
                linear.weight.copy_(torch.tensor(initial[f"{tower}.{layer}.kernel"].T))
                linear.bias.copy_(torch.tensor(initial[f"{tower}.{layer}.bias"]))
    if SCALE in initial:
        towers["scale"] = AddStateIndependentNormalScale(len(initial[SCALE]), scale_mapping="exp")
        with torch.no_grad():
            towers["scale"].state_independent_scale.copy_(torch.tensor(initial[SCALE]))
    return towers


def make_actor(towers: Towers) -> Any:
    """The policy: of choices, or of numbers."""
    if "scale" in towers:
        inner, told = nn.Sequential(towers["policy"], towers["scale"]), {"in_keys": ["loc", "scale"]}
        distribution: dict[str, Any] = {"distribution_class": IndependentNormal, "distribution_kwargs": {"tanh_loc": False}}
    else:
        inner, told = towers["policy"], {"in_keys": ["logits"]}
        distribution = {"distribution_class": torch.distributions.Categorical}
    module = TensorDictModule(inner, in_keys=["observation"], out_keys=told["in_keys"])
    return ProbabilisticActor(module, return_log_prob=True, **told, **distribution)


def linears(tower: Any) -> list[Any]:
    """Its linear layers in order."""
    return [module for module in tower if isinstance(module, nn.Linear)]


def tensors_of(towers: Towers, clip: float | None) -> Tensors:
    """Parameters, and statistics of observations, as they are now."""
    found = {} if clip is None else dict(normaliser(clip))
    if "scale" in towers:
        found[SCALE] = towers["scale"].state_independent_scale.detach().numpy().copy()
    for tower in ("policy", "value"):
        for layer, linear in enumerate(linears(towers[tower])):
            found[f"{tower}.{layer}.kernel"] = linear.weight.detach().numpy().T.copy()
            found[f"{tower}.{layer}.bias"] = linear.bias.detach().numpy().copy()
    return found


class Learner:
    """One round of updates after another."""

    def __init__(self, actor: Any, critic: Any, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._advantages = GAE(value_network=critic, **settings["advantages"])
        self._loss = ClipPPOLoss(actor, critic, **settings["loss"])
        self._adam = torch.optim.Adam(self._loss.parameters(), **settings["adam"])
        self.optimizer_steps = 0

    def train(self, rollouts: Any, steps_before: int) -> None:
        """Train on a round [environments, steps], before which so many steps had been trained on."""
        s = self._settings
        if s["decay_steps"] is not None:
            left = max(0.0, 1.0 - steps_before / s["decay_steps"])
            for group in self._adam.param_groups:
                group["lr"] = s["adam"]["lr"] * left
        with torch.no_grad():
            self._advantages(rollouts)
        rows = rollouts.reshape(-1)
        for _ in range(s["epochs"]):
            for chosen in torch.split(torch.randperm(len(rows)), s["minibatch_size"]):
                losses = self._loss(rows[chosen])
                loss = sum(value for name, value in losses.items() if name.startswith("loss_"))
                self._adam.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self._loss.parameters(), s["max_grad_norm"])
                self._adam.step()
                self.optimizer_steps += 1


def record_environments(run: Run, counts: Counts) -> int:
    """Record what the environments have done meanwhile; their steps so far."""
    steps, first_ns = counts.read()
    if first_ns is not None:
        run.recording.first_step(first_ns)
    for episode in counts.episodes():
        run.recording.episode(*episode)
    return steps


def rounds(collector: Any, batches: int) -> Iterator[Any]:
    """Rounds of so many batches, in the order of their arrival."""
    arriving = iter(collector)
    while True:
        yield torch.cat([next(arriving) for _ in range(batches)])


def main() -> None:
    """Train, and record it."""
    with Run() as run:
        s, w, seed = run.settings, run.workload, run.task["seed"]
        torch.set_num_threads(s["torch_threads"])
        torch.manual_seed(seed)
        counts = Counts(w["environments"])
        towers, clip = make_towers(run.initial, s), s["clip_observations"]
        if clip is not None:
            make_statistics(len(run.initial["normaliser.mean"]))
        # Taken before a collector resets its environments, which statistics count.
        begun, actor = tensors_of(towers, clip), make_actor(towers)
        critic = ValueOperator(towers["value"], in_keys=["observation"])
        learner, number = Learner(actor, critic, s), s["environments_per_collector"]
        collector = MultiAsyncCollector(
            [
                partial(make_environments, w["env"], i * number, number, w["environments"], seed, clip)
                for i in range(s["collectors"])
            ],
            actor,
            frames_per_batch=number * s["rollout_steps"],
            total_frames=-1,
            device="cpu",
        )
        collector.set_seed(seed)
        run.snapshot(0, 0, begun)
        try:
            train(run, learner, collector, counts, towers)
        finally:
            collector.shutdown(timeout=CLOSE_S)


def train(run: Run, learner: Learner, collector: Any, counts: Counts, towers: Towers) -> None:
    """Train until the budget is used or a stop is requested."""
    s, budget = run.settings, run.workload["budget_steps"]
    trained, waited_ns, updated_ns = 0, 0, 0
    now = time.monotonic_ns()
    for rollouts in rounds(collector, s["collectors"]):
        arrived = time.monotonic_ns()
        waited_ns += arrived - now
        learner.train(rollouts, trained)
        trained += rollouts.numel()
        collector.update_policy_weights_()
        now = time.monotonic_ns()
        updated_ns += now - arrived
        steps = record_environments(run, counts)
        run.progress(steps, trained * s["epochs"], trained)
        ends = run.stopping or steps + rollouts.numel() > budget
        if run.due(steps) or ends:
            run.snapshot(steps, learner.optimizer_steps, tensors_of(towers, s["clip_observations"]), now)
        if ends:
            break
    run.close(steps, learner.optimizer_steps, {"update": updated_ns / 1e9}, {"samples": waited_ns / 1e9})


if __name__ == "__main__":
    main()
