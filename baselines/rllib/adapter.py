"""Ray RLlib as a system under test: set up as its documentation advises, with the workload's hyper-parameters."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from baselines import normalisation
from baselines.rllib import cluster, dqn, ppo, weights
from baselines.rllib.environment import environment, register, vectorize_mode, when_created
from baselines.rllib.stopwatch import Stopwatch
from baselines.space import Space
from baselines.system import Recorder, System, Task
from baselines.workload import Workload
from tianji.env_settings import ActionsConfig

if TYPE_CHECKING:
    from baselines.certificate import Evidence, Frozen

OBJECT_STORE_BYTES = 256 * 2**20
MODULE = "default_policy"
PROGRESS_S = 0.5
"""Minimum seconds between two progress reports. One iteration of RLlib may take longer."""
RUNNERS = "env_runners"
"""Option: the number of remote env runners."""
ALGORITHMS: dict[str, ModuleType] = {"ppo": ppo, "dqn": dqn}


class RLlib(System):
    """RLlib's PPO and DQN on the new API stack: env runners, connectors and a learner."""

    name = "rllib"
    title = "RLlib"
    on_first_node = True  # Its driver holds the learner, the replay and whatever passes between env runners and learners.
    needs_ray = True

    runners: tuple[int, ...] = (0, 1, 2)
    """Numbers of remote env runners among which tuning chooses; 0: it samples in the learner's process."""
    probe = True
    """Whether episodes are recorded in its env runners."""
    gaussians = True
    """Whether actions that are numbers, and normalisation, are translated to it."""

    def __init__(self) -> None:
        self._algorithm: Any = None
        self._directory: str | None = None
        self._runner_steps: dict[int, int] = {}
        """Environment steps of each env runner, as its probe reported."""

    def available(self) -> str | None:
        missing = [name for name in ("ray", "torch") if importlib.util.find_spec(name) is None]
        return f"{' and '.join(missing)} not installed" if missing else None

    def unable(self, workload: Workload) -> str | None:
        return (
            (workload.beyond_gaussians if self.gaussians else workload.beyond_choices)
            or workload.beyond_common
            or ("pictures are not translated to it" if workload.pictures else None)
        )

    def unable_on(self, workload: Workload, nodes: int) -> str | None:
        if workload.environments % nodes:
            return f"{workload.environments} environments cannot be dealt out evenly to {nodes} env runners"
        if workload.round_steps % workload.environments:
            return (
                f"a round of {workload.round_steps} steps is not a whole number of each of {workload.environments} environments"
            )
        return None

    def deviations(self, task: Task) -> list[str]:
        sampling = max(1, self.env_runners(task))
        own: list[str] = self.translation(task.workload).deviations(task.workload, sampling, max(1, self.learners(task)))
        told = [
            *own,
            *([normalisation.MOVING] if task.workload.normalises_observations else []),
            *([normalisation.ALONE] if task.workload.normalises_rewards else []),
            "An episode's environment is reset in the following vector step (Gymnasium's default); that row is not counted.",
            "Our clock starts when its first training iteration is called, a few milliseconds before its first step.",
        ]
        if task.cluster is not None:
            told.append(
                "How far it is, is told between its training iterations: a sample counts when the iteration that used it ends."
            )
        if task.nodes > 1:
            told.append(
                "When an episode ended is read from its env runner's clock; where that is another than the driver's, all are "
                "moved by one comparison of the two at the end."
            )
        return told

    def env_runners(self, task: Task) -> int:
        """Remote env runners.

        On a cluster one on each node. On one host of up to two cores none: sampling in the learner's process is the
        fastest there (docs/notebook/2026-11-speed.md).
        """
        if task.nodes > 1:
            return task.nodes
        if RUNNERS in task.options:
            return int(task.options[RUNNERS])
        cores = len(task.cores)
        if cores <= 2 or task.cluster is not None:
            return 0
        return max(n for n in range(1, cores) if task.workload.environments % n == 0)

    def takes(self, option: str) -> bool:
        return option == RUNNERS

    def space(self, task: Task) -> Space:
        closed = self.env_runners(task)
        choices = tuple(sorted({closed, *(n for n in self.runners if n == 0 or task.workload.environments % n == 0)}))
        # RLlib's own default is two for PPO and none for DQN; every number is tried.
        advised = 2 if task.workload.algo == "ppo" else 0
        order = dict.fromkeys((closed, *(n for n in choices if n == advised), *choices))
        return super().space(task).extended({RUNNERS: choices}, *({RUNNERS: n} for n in order))

    def learners(self, task: Task) -> int:
        """Remote learners; 0: it is in the driver."""
        return 0

    def translation(self, workload: Workload) -> ModuleType:
        """Module that translates a workload's algorithm."""
        return ALGORITHMS[workload.algo]

    def iteration_steps(self, workload: Workload) -> int:
        """Least environment steps of one of its training iterations; 0: one round."""
        return 0

    def optimizer_steps(self, workload: Workload, before: int, rows: int) -> int:
        """Optimizer steps so far, after an iteration that trained on `rows` rows."""
        minibatch: int = self.translation(workload).minibatch(workload)
        return before + round(rows / minibatch)

    def settings(self, task: Task) -> dict[str, Any]:
        w, runners, learners = task.workload, self.env_runners(task), self.learners(task)
        training = self.translation(w).training(w, max(1, learners))
        if "training_intensity" in training and runners:
            # RLlib multiplies by one worker more than it has.
            training["training_intensity"] *= runners / (runners + 1)
        return {
            "num_env_runners": runners,
            "num_envs_per_env_runner": w.environments // max(1, runners),
            "rollout_fragment_length": w.round_steps // w.environments,
            "num_learners": learners,
            "gym_env_vectorize_mode": vectorize_mode(w),
            "training": training,
            "model": {"fcnet_hiddens": list(w.network.hidden), "fcnet_activation": w.network.activation}
            | ({} if w.algo == "dqn" else {"vf_share_layers": False})
            | ({"free_log_std": True} if isinstance(w.actions, ActionsConfig) else {}),
            **({"placement": cluster.placement(learners)} if runners and task.cluster is not None else {}),
        }

    def certify(self, frozen: Frozen) -> Evidence | None:
        from baselines.rllib import evidence

        # What a learner computes does not depend on where it is; here it can be built without Ray.
        config = self._config(Task(self.name, frozen.workload, 0, (0,))).learners(num_learners=0)
        return evidence.collect(frozen, config)

    def prepare(self, task: Task, recorder: Recorder) -> None:
        os.environ |= cluster.ENVIRONMENT
        import torch

        # The replay imports it when it is first drawn from: that is set-up, and takes seconds on a fraction of a core.
        importlib.import_module("scipy.signal")

        torch.set_num_threads(1)
        if task.cluster is not None and task.cluster.ray_address is not None:
            cluster.join(task.cluster)
        else:
            self._start_ray(task)
        register(task.workload)
        self._algorithm = self._config(task).build_algo()
        description = task.workload.describe()
        self._network = task.workload.flat_network(description)
        self._give_initial_weights(task.seed)

    def _start_ray(self, task: Task) -> None:
        """On this host alone."""
        # Ray's socket paths must stay short: about 75 characters follow.
        self._directory = tempfile.mkdtemp(prefix="r-", dir=None if len(tempfile.gettempdir()) <= 28 else "/tmp")
        # Ray leaves a token and RLlib a folder of results in the home folder, which no setting moves. This process has one run.
        os.environ["HOME"] = self._directory
        import ray

        ray.init(
            num_cpus=max(2, len(task.cores)),
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=OBJECT_STORE_BYTES,
            resources={cluster.RUNNER: 1, cluster.LEARNER: 1},
            _temp_dir=self._directory,
        )

    def _config(self, task: Task) -> Any:
        from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

        from baselines.rllib.probe import EpisodeProbe

        s = self.settings(task)
        placement = s.get("placement", {"env_runners": {}, "learners": {}})
        config = (
            self.translation(task.workload)
            .base_config(task.workload)
            .environment(**environment(task.workload))
            .framework("torch")
            .env_runners(
                num_env_runners=s["num_env_runners"],
                num_envs_per_env_runner=s["num_envs_per_env_runner"],
                rollout_fragment_length=s["rollout_fragment_length"],
                gym_env_vectorize_mode=s["gym_env_vectorize_mode"],
                **placement["env_runners"],
            )
            .learners(num_learners=s["num_learners"], **placement["learners"])
            .training(**s["training"])
            .rl_module(model_config=DefaultModelConfig(**s["model"]))
            .reporting(min_sample_timesteps_per_iteration=self.iteration_steps(task.workload), min_time_s_per_iteration=0)
            .debugging(seed=task.seed, log_level="ERROR")
        )
        if self.probe:
            config.callbacks(EpisodeProbe)
        if task.workload.normalises_observations:
            from ray.rllib.connectors.env_to_module import MeanStdFilter

            clip = task.workload.normaliser.clip_observations
            config.env_runners(env_to_module_connector=lambda *_, **__: MeanStdFilter(clip_by_value=clip))
        if (number := when_created(task.workload)) is not None:
            config.callbacks(on_environment_created=number)
        return config

    def _give_initial_weights(self, seed: int) -> None:
        """Start from the very weights that every other system starts from."""
        group = self._algorithm.learner_group
        module = weights.to_rllib(self._network, self._network.initialise(seed), group.get_weights()[MODULE])
        group.set_weights({MODULE: module})
        self._algorithm.env_runner_group.sync_weights(from_worker_or_learner_group=group)

    def train(self, task: Task, recorder: Recorder) -> None:
        w, steps, version, snapshot_at = task.workload, 0, 0, 0
        start = time.monotonic_ns()
        recorder.first_step(start)
        self._snapshot(recorder, 0, 0)
        told_ns, consumed = start, 0
        self._progress(recorder, start, 0, 0)
        watch = self._watch(remote=self.env_runners(task) > 0)
        own_return: float | None = None
        while (
            not recorder.may_end
            and steps + w.round_steps <= w.budget_steps
            and time.monotonic_ns() - start < w.budget_seconds * 1e9
        ):
            result = self._algorithm.train()
            before, steps = steps, int(result["num_env_steps_sampled_lifetime"])
            trained = int(result.get("learners", {}).get(MODULE, {}).get("num_module_steps_trained", 0))
            consumed += trained
            version = self.optimizer_steps(w, version, trained)
            now = time.monotonic_ns()
            if now - told_ns >= PROGRESS_S * 1e9:
                self._progress(recorder, now, steps, consumed)
                told_ns = now
            own = result["env_runners"].get("episode_return_mean")
            own_return = own_return if own is None or own != own else float(own)
            if before // w.snapshot_every_steps != steps // w.snapshot_every_steps:
                if task.stop_at_goal and self.probe:
                    self._episodes(recorder)
                self._snapshot(recorder, steps, version)
                snapshot_at = steps
        self._progress(recorder, time.monotonic_ns(), steps, consumed)
        busy, wait = self._accounts(watch)
        if snapshot_at != steps:
            self._snapshot(recorder, steps, version)
        if self.probe:
            self._episodes(recorder)
            recorder.counter("env_runners_restarted", float(self._algorithm.env_runner_group.num_remote_worker_restarts()))
        usage = resource.getrusage(resource.RUSAGE_SELF)
        recorder.process("driver", busy, wait, time.process_time(), usage.ru_maxrss * 1024)
        recorder.counter("learner_steps", float(steps))
        recorder.counter("learner_optimizer_steps", float(version))
        if own_return is not None:
            recorder.counter("own_episode_return_mean", own_return)

    def _watch(self, *, remote: bool) -> Stopwatch:
        """Measure what its iterations consist of, from now on."""
        watch, group = Stopwatch(), self._algorithm.env_runner_group
        watch.watch(self._algorithm, "train", "all")
        watch.watch(group, "sync_weights", "send")
        if remote:
            watch.watch(group, "foreach_env_runner", "samples")
        else:
            watch.watch(group.local_env_runner, "sample", "sample")
        return watch

    def _accounts(self, watch: Stopwatch) -> tuple[dict[str, float], dict[str, float]]:
        """Busy and waiting seconds of the driver.

        Time that is neither sampling nor sending weights counts as updating or, with remote learners, as waiting for them."""
        spent = dict(watch.seconds)
        updating = spent.pop("all") - sum(spent.values())
        waiting = {name: spent.pop(name) for name in ("samples",) if name in spent}
        return {**spent, "update": updating}, waiting

    def _progress(self, recorder: Recorder, at_ns: int, steps: int, consumed: int) -> None:
        """Report progress. All samples are used: PPO trains on those of the iteration, and DQN inserts them into its replay."""
        counts = {"samples_produced": steps, "samples_consumed": consumed, "samples_consumed_unique": steps}
        recorder.progress(at_ns, "driver", counts)

    def _episodes(self, recorder: Recorder) -> None:
        """Report the episodes that the env runners' probes recorded since the last call."""
        from baselines.rllib import probe

        group = self._algorithm.env_runner_group
        asked = time.monotonic_ns()
        handed = group.foreach_env_runner(probe.hand_over, local_env_runner=group.num_remote_env_runners() == 0)
        answered = time.monotonic_ns()
        ours = [probe.on_our_clock(one, asked, answered) for one in handed]
        for at, value, length, seen in probe.merged(ours, self._runner_steps):
            recorder.episode(at, value, length, seen)

    def _snapshot(self, recorder: Recorder, steps: int, version: int) -> None:
        at = time.monotonic_ns()
        state = self._algorithm.learner_group.get_weights()[MODULE]
        recorder.snapshot(at, steps, version, weights.from_rllib(self._network, state, self._normaliser()))

    def _normaliser(self) -> Mapping[str, Any] | None:
        """Blocks by which observations are normalised; None: they are not. Env runners have them in common."""
        if not self._network.normalised:
            return None
        group = self._algorithm.env_runner_group
        remote = group.num_remote_env_runners() > 0
        state, *_ = group.foreach_env_runner(weights.filter_state, local_env_runner=not remote)
        return weights.normaliser(state) or self._network.views(self._network.initialise(0))

    def stop(self) -> None:
        if self._algorithm is not None:
            self._algorithm.stop()
        if importlib.util.find_spec("ray") is not None:
            import ray

            ray.shutdown()  # Nothing where it was not started.
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


class UnprobedRLlib(RLlib):
    """RLlib without our episode callback: what the probe costs is measured against it. It has no training return."""

    name = "rllib-unprobed"
    title = "RLlib without the probe"
    probe = False
