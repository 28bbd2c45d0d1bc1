"""RLlib's PPO, set up as its documentation advises and with the workload's hyper-parameters."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from baselines.rllib import weights
from baselines.system import Recorder, System, Task
from tianji.algorithms import networks
from tianji.envs import describe

OBJECT_STORE_BYTES = 256 * 2**20


class RLlib(System):
    """Ray RLlib's PPO on the new API stack: env runners, connectors and a learner."""

    name = "rllib"
    title = "RLlib"

    def __init__(self) -> None:
        self._algorithm: Any = None
        self._directory: str | None = None

    def available(self) -> str | None:
        missing = [name for name in ("ray", "torch") if importlib.util.find_spec(name) is None]
        return f"{' and '.join(missing)} not installed" if missing else None

    def deviations(self, task: Task) -> list[str]:
        return [
            "A round holds 256 to 263 transitions, not exactly 256: its env runner stops at the first vector step that "
            "reaches the count, after leaving out reset rows.",
            "Its batch holds one artificial, masked row more for each episode piece, and minibatches of 256 cycle through "
            "it until every row was used 20 times: 21 or 22 optimizer steps a round, each on somewhat fewer than 256 "
            "transitions.",
            "Advantages are normalised over the whole batch, those rows included, once a round, not for each minibatch; "
            "the two are the same set here.",
            "Where an episode is reset in the environment's next step (Gymnasium's default), that row is not counted.",
        ]

    def env_runners(self, task: Task) -> int:
        """Remote env runners: on up to two cores, sampling in the learner's process is the fastest (docs/performance.md)."""
        cores = len(task.cores)
        if cores <= 2:
            return 0
        return max(n for n in range(1, cores) if task.workload.environments % n == 0)

    def settings(self, task: Task) -> dict[str, Any]:
        w, ppo, runners = task.workload, task.workload.for_ppo, self.env_runners(task)
        linear = ppo.learning_rate_schedule == "linear"
        return {
            "num_env_runners": runners,
            "num_envs_per_env_runner": w.environments // max(1, runners),
            "rollout_fragment_length": ppo.rollout_steps,
            "num_learners": 0,
            "gym_env_vectorize_mode": "sync",
            "training": {
                "gamma": ppo.gamma,
                "lambda_": ppo.gae_lambda,
                "lr": [[0, ppo.learning_rate], [w.horizon_steps, 0.0]] if linear else ppo.learning_rate,
                "train_batch_size_per_learner": w.round_steps,
                "minibatch_size": ppo.minibatch_size,
                "num_epochs": ppo.epochs,
                "clip_param": ppo.clip,
                "use_kl_loss": False,
                "kl_coeff": 0.0,
                "vf_loss_coeff": ppo.value_coefficient,
                "vf_clip_param": float(2**100),
                "entropy_coeff": ppo.entropy_coefficient,
                "grad_clip": ppo.max_grad_norm,
                "grad_clip_by": "global_norm",
            },
            "adam_epsilon": ppo.adam_epsilon,
            "model": {
                "fcnet_hiddens": list(w.network.hidden),
                "fcnet_activation": w.network.activation,
                "vf_share_layers": False,
            },
        }

    def prepare(self, task: Task, recorder: Recorder) -> None:
        # One thread, as in every system: these matrices are too small for a thread pool to pay.
        os.environ |= {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AIR_NEW_OUTPUT": "0"}
        self._directory = tempfile.mkdtemp(prefix="tj-ray-", dir="/tmp")  # Ray's socket paths must stay short.
        (Path(self._directory) / "probe").mkdir()

        from baselines.rllib.probe import DIRECTORY

        os.environ[DIRECTORY] = str(Path(self._directory) / "probe")
        import ray
        import torch
        from ray.rllib.algorithms.ppo import PPOConfig
        from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

        from baselines.rllib.learner import with_adam_epsilon
        from baselines.rllib.probe import EpisodeProbe

        torch.set_num_threads(1)
        ray.init(
            num_cpus=max(2, len(task.cores)),
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=self._directory,
        )
        s = self.settings(task)
        config = (
            PPOConfig()
            .environment(task.workload.env)
            .framework("torch")
            .env_runners(
                num_env_runners=s["num_env_runners"],
                num_envs_per_env_runner=s["num_envs_per_env_runner"],
                rollout_fragment_length=s["rollout_fragment_length"],
                gym_env_vectorize_mode=s["gym_env_vectorize_mode"],
            )
            .learners(num_learners=s["num_learners"])
            .training(**s["training"], learner_class=with_adam_epsilon(s["adam_epsilon"]))
            .rl_module(model_config=DefaultModelConfig(**s["model"]))
            .callbacks(EpisodeProbe)
            .reporting(min_sample_timesteps_per_iteration=0, min_time_s_per_iteration=0)
            .debugging(seed=task.seed, log_level="ERROR")
        )
        self._algorithm = config.build_algo()
        description = describe(task.workload.env)
        self._network = networks.build(task.workload.network, description.features, description.actions)
        self._give_initial_weights(task.seed)

    def _give_initial_weights(self, seed: int) -> None:
        """Start from the very weights that every other system starts from."""
        group = self._algorithm.learner_group
        states = group.get_weights()
        module = weights.to_rllib(self._network, self._network.initialise(seed), states["default_policy"])
        group.set_weights({"default_policy": module})
        self._algorithm.env_runner_group.sync_weights(from_worker_or_learner_group=group)

    def train(self, task: Task, recorder: Recorder) -> None:
        from baselines.rllib import probe

        w, steps, version, snapshot_at = task.workload, 0, 0, 0
        start = time.monotonic_ns()
        # Its env runners reset inside their first call: our clock starts a little before their first step.
        recorder.first_step(start)
        self._snapshot(recorder, 0, 0)
        # Its own timers, which are smoothed over rounds: their sum is close to the seconds spent, not equal to it.
        busy = {"sample": 0.0, "update": 0.0, "send": 0.0}
        while steps + w.round_steps <= w.budget_steps and time.monotonic_ns() - start < w.budget_seconds * 1e9:
            result = self._algorithm.train()
            before, steps = steps, int(result["num_env_steps_sampled_lifetime"])
            trained = int(result["learners"]["default_policy"]["num_module_steps_trained"])
            version += round(trained / min(w.for_ppo.minibatch_size, w.round_steps))
            timers = result["timers"]
            busy["sample"] += float(timers["env_runner_sampling_timer"])
            busy["update"] += float(timers["learner_update_timer"])
            busy["send"] += float(timers["synch_weights"])
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

    def _snapshot(self, recorder: Recorder, steps: int, version: int) -> None:
        at = time.monotonic_ns()
        state = self._algorithm.learner_group.get_weights()["default_policy"]
        recorder.snapshot(at, steps, version, weights.from_rllib(self._network, state))

    def stop(self) -> None:
        if self._algorithm is not None:
            self._algorithm.stop()
            import ray

            ray.shutdown()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
