"""Ray RLlib as a system under test: set up as its documentation advises, with the workload's hyper-parameters."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from baselines.rllib import dqn, ppo, weights
from baselines.system import Recorder, System, Task
from baselines.workload import Workload
from tianji.algorithms import networks

if TYPE_CHECKING:
    from baselines.certificate import Evidence, Frozen

OBJECT_STORE_BYTES = 256 * 2**20
MODULE = "default_policy"
ALGORITHMS: dict[str, ModuleType] = {"ppo": ppo, "dqn": dqn}


class RLlib(System):
    """RLlib's PPO and DQN on the new API stack: env runners, connectors and a learner."""

    name = "rllib"
    title = "RLlib"

    probe = True
    """Whether episodes are recorded in its env runners."""

    def __init__(self) -> None:
        self._algorithm: Any = None
        self._directory: str | None = None

    def available(self) -> str | None:
        missing = [name for name in ("ray", "torch") if importlib.util.find_spec(name) is None]
        return f"{' and '.join(missing)} not installed" if missing else None

    def unable(self, workload: Workload) -> str | None:
        return workload.beyond_common

    def deviations(self, task: Task) -> list[str]:
        own: list[str] = ALGORITHMS[task.workload.algo].DEVIATIONS
        return [
            *own,
            "An episode's environment is reset in the following vector step (Gymnasium's default); that row is not counted.",
            "Our clock starts when its first training iteration is called, a few milliseconds before its first step.",
        ]

    def env_runners(self, task: Task) -> int:
        """Remote env runners: on up to two cores, sampling in the learner's process is the fastest (docs/performance.md)."""
        cores = len(task.cores)
        if cores <= 2:
            return 0
        return max(n for n in range(1, cores) if task.workload.environments % n == 0)

    def settings(self, task: Task) -> dict[str, Any]:
        w, runners = task.workload, self.env_runners(task)
        algorithm = ALGORITHMS[w.algo]
        training = algorithm.training(w)
        if "training_intensity" in training and runners:
            # RLlib multiplies by one worker more than it has.
            training["training_intensity"] *= runners / (runners + 1)
        return {
            "num_env_runners": runners,
            "num_envs_per_env_runner": w.environments // max(1, runners),
            "rollout_fragment_length": w.round_steps // w.environments,
            "num_learners": 0,
            "gym_env_vectorize_mode": "sync",
            "training": training,
            "model": {"fcnet_hiddens": list(w.network.hidden), "fcnet_activation": w.network.activation}
            | ({"vf_share_layers": False} if w.algo == "ppo" else {}),
        }

    def certify(self, frozen: Frozen) -> Evidence:
        from baselines.rllib import evidence

        return evidence.collect(frozen, self._config(Task(self.name, frozen.workload, 0, (0,))))

    def prepare(self, task: Task, recorder: Recorder) -> None:
        # One thread, as in every system: these matrices are too small for a thread pool to pay.
        os.environ |= {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AIR_NEW_OUTPUT": "0"}
        # Ray's socket paths must stay short: about 75 characters follow.
        self._directory = tempfile.mkdtemp(prefix="r-", dir=None if len(tempfile.gettempdir()) <= 28 else "/tmp")
        (Path(self._directory) / "probe").mkdir()

        from baselines.rllib.probe import DIRECTORY

        os.environ[DIRECTORY] = str(Path(self._directory) / "probe")
        import ray
        import torch

        torch.set_num_threads(1)
        ray.init(
            num_cpus=max(2, len(task.cores)),
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=self._directory,
        )
        self._algorithm = self._config(task).build_algo()
        description = task.workload.describe()
        self._network = networks.build(task.workload.network, description.features, description.actions)
        self._give_initial_weights(task.seed)

    def _config(self, task: Task) -> Any:
        from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

        from baselines.rllib.probe import EpisodeProbe

        s = self.settings(task)
        config = (
            ALGORITHMS[task.workload.algo]
            .base_config(task.workload)
            .environment(task.workload.env)
            .framework("torch")
            .env_runners(
                num_env_runners=s["num_env_runners"],
                num_envs_per_env_runner=s["num_envs_per_env_runner"],
                rollout_fragment_length=s["rollout_fragment_length"],
                gym_env_vectorize_mode=s["gym_env_vectorize_mode"],
            )
            .learners(num_learners=s["num_learners"])
            .training(**s["training"])
            .rl_module(model_config=DefaultModelConfig(**s["model"]))
            .reporting(min_sample_timesteps_per_iteration=0, min_time_s_per_iteration=0)
            .debugging(seed=task.seed, log_level="ERROR")
        )
        return config.callbacks(EpisodeProbe) if self.probe else config

    def _give_initial_weights(self, seed: int) -> None:
        """Start from the very weights that every other system starts from."""
        group = self._algorithm.learner_group
        module = weights.to_rllib(self._network, self._network.initialise(seed), group.get_weights()[MODULE])
        group.set_weights({MODULE: module})
        self._algorithm.env_runner_group.sync_weights(from_worker_or_learner_group=group)

    def train(self, task: Task, recorder: Recorder) -> None:
        from baselines.rllib import probe

        w, steps, version, snapshot_at = task.workload, 0, 0, 0
        rows = ALGORITHMS[w.algo].minibatch(w)
        start = time.monotonic_ns()
        recorder.first_step(start)
        self._snapshot(recorder, 0, 0)
        # Sampling and synchronisation by its own timers, which are smoothed over rounds; updating is the rest.
        busy = {"sample": 0.0, "update": 0.0, "send": 0.0}
        own_return: float | None = None
        while steps + w.round_steps <= w.budget_steps and time.monotonic_ns() - start < w.budget_seconds * 1e9:
            began = time.monotonic_ns()
            result = self._algorithm.train()
            took = (time.monotonic_ns() - began) / 1e9
            before, steps = steps, int(result["num_env_steps_sampled_lifetime"])
            trained = result.get("learners", {}).get(MODULE, {}).get("num_module_steps_trained", 0)
            version += round(int(trained) / rows)
            timers = result["timers"]
            sampling, sending = float(timers["env_runner_sampling_timer"]), float(timers.get("synch_weights", 0.0))
            busy["sample"] += sampling
            busy["send"] += sending
            busy["update"] += max(0.0, took - sampling - sending)
            own = result["env_runners"].get("episode_return_mean")
            own_return = own_return if own is None or own != own else float(own)
            if before // w.snapshot_every_steps != steps // w.snapshot_every_steps:
                self._snapshot(recorder, steps, version)
                snapshot_at = steps
        if snapshot_at != steps:
            self._snapshot(recorder, steps, version)
        for at, value, length, seen in probe.read(Path(os.environ[probe.DIRECTORY])):
            recorder.episode(at, value, length, seen)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        recorder.process("driver", busy, {}, time.process_time(), usage.ru_maxrss * 1024)
        recorder.counter("learner_steps", float(steps))
        recorder.counter("learner_optimizer_steps", float(version))
        if own_return is not None:
            recorder.counter("own_episode_return_mean", own_return)

    def _snapshot(self, recorder: Recorder, steps: int, version: int) -> None:
        at = time.monotonic_ns()
        state = self._algorithm.learner_group.get_weights()[MODULE]
        recorder.snapshot(at, steps, version, weights.from_rllib(self._network, state))

    def stop(self) -> None:
        if self._algorithm is not None:
            self._algorithm.stop()
            import ray

            ray.shutdown()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


class UnprobedRLlib(RLlib):
    """RLlib without our episode callback: what the probe costs is measured against it. It has no training return."""

    name = "rllib-unprobed"
    title = "RLlib without the probe"
    probe = False
