"""TianJi as a system under test, its ablations, and the plain synchronous system made of the same code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
import numpy as np

from baselines.space import Scalar, Space, equal_parts
from baselines.system import Recorder, System, Task
from baselines.workload import Workload
from tianji.config import ActionsConfig, DQNConfig, IMPALAConfig, PPOConfig, SACConfig, TD3Config, TrainConfig
from tianji.disciplines.auto import Choice
from tianji.disciplines.registry import samples_beside
from tianji.division import actors_by_need
from tianji.hyperparameters import ReplayConfig
from tianji.launch.events import Heard
from tianji.launch.node import Cluster
from tianji.messages import Episodes, Progress, Report, Snapshot, Started
from tianji.run.training import train
from tianji.settings import paths, replaced

if TYPE_CHECKING:
    from baselines.certificate import Evidence, Frozen


R = TypeVar("R", bound=ReplayConfig)


class SameCode(System):
    """Base of systems that run `tianji.train`, each with its own configuration."""

    def available(self) -> str | None:
        return None

    def deviations(self, task: Task) -> list[str]:
        return []

    def config(self, task: Task) -> TrainConfig:
        """TianJi's configuration for a task."""
        raise NotImplementedError

    def settings(self, task: Task) -> dict[str, Any]:
        settings: dict[str, Any] = msgspec.to_builtins(self.config(task))
        return settings

    def certify(self, frozen: Frozen) -> Evidence:
        from baselines import samecode

        return samecode.evidence(frozen)

    def train(self, task: Task, recorder: Recorder) -> None:
        train(self.config(task), Listener(recorder), cluster=task.cluster)

    def _config(self, task: Task, *, actors: int, groups: int = 1, encrypt: bool = False, **more: Any) -> TrainConfig:
        w = task.workload
        if task.cluster is not None and task.cluster.ray_address is not None:
            more |= {"launcher": "ray", "ray_address": task.cluster.ray_address, "ray_placement": "STRICT_SPREAD"}
        config = TrainConfig(
            env=w.env,
            algo=w.algo,
            seed=task.seed,
            groups=groups,
            actors=actors,
            envs_per_actor=w.environments // (actors * groups),
            fusion_rounds=w.fusion_rounds,
            # Plaintext only on a private network.
            encrypt=encrypt or not _private(task.cluster),
            network=w.network,
            ppo=w.ppo or PPOConfig(),
            dqn=_share(w.dqn or DQNConfig(), groups),
            sac=_share(w.sac or SACConfig(), groups),
            td3=_share(w.td3 or TD3Config(), groups),
            impala=w.impala or IMPALAConfig(),
            atari=w.games,
            simulator=w.simulator,
            actions=w.actions or ActionsConfig(),
            normalise=w.normaliser,
            device=w.device or "cpu",
            update_seconds=w.update_seconds,
            horizon_steps=w.horizon_steps,
            stop_steps=w.budget_steps,
            stop_seconds=w.budget_seconds,
            snapshot_every_steps=w.snapshot_every_steps,
            # A death is a result here. Checkpoints are off, because other systems do not store any while they are measured.
            checkpoint_seconds=None,
            restarts=0,
            **more,
        )
        return replaced(config, task.options) if task.options else config

    def round_steps(self, task: Task) -> int:
        config = self.config(task)
        rule = config.auto or config.rule
        steps = rule.largest_round * config.chunk_samples
        if config.groups == 1:
            return steps
        # A group hears of the others' steps once an exchange, and one exchange late where groups do not wait for each other.
        return steps * config.groups * config.fusion_rounds * (1 if rule.groups_wait else 2)

    def takes(self, option: str) -> bool:
        return option in paths(TrainConfig)


def _private(cluster: Cluster | None) -> bool:
    """Whether traffic between nodes stays on this machine, because they are emulated or loopback addresses."""
    return cluster is not None and all(node.namespace or node.address.startswith("127.") for node in cluster.nodes)


def _share(settings: R, groups: int) -> R:
    """Settings of one group. Groups divide the size of the replay and the steps before learning begins."""
    if groups == 1:
        return settings
    return msgspec.structs.replace(
        settings,
        replay_capacity=-(-settings.replay_capacity // groups),
        learning_starts=max(settings.batch_size, -(-settings.learning_starts // groups)),
    )


class Sync(SameCode):
    """Plain synchronous system: as many actors as TianJi, and a learner, in processes that wait for each other.

    On policy it is TianJi's strict discipline in another placement. It is the reference for the gain of relaxed dependencies
    off policy; on policy the reference is strict TianJi.
    """

    name = "sync"
    title = "synchronous (same code)"

    def config(self, task: Task) -> TrainConfig:
        return self._config(task, actors=self.actors(task), buffer=False, chunk_slots=1, placement="apart")

    def actors(self, task: Task) -> int:
        """Number of actors."""
        return actors_for(task) * task.nodes


class SyncOne(Sync):
    """Plain synchronous system with one actor process."""

    name = "sync-one"
    title = "synchronous, one actor (same code)"

    def actors(self, task: Task) -> int:
        return 1


SLOTS = 8
"""Most chunks of an actor in flight if actors do not wait for weights. The balance decides how many are used."""


BFLOAT16 = "Products of updates take bfloat16 operands; weights, sums and the loss stay float32."
FREE_RUNNING = (
    "The learner updates without waiting for samples: updates for each environment step are not those of the workload.",
)


class TianJi(SameCode):
    """Actors, buffer and learner as separate processes; on several nodes a group of them on each, and a Root on the first.

    PPO is strict: actors wait for weights, and groups wait for each other. Off policy, an actor samples while the learner
    trains, within the two-sided balance, and groups do not wait.
    """

    name = "tianji"
    title = "TianJi"
    groups: Literal["one", "one a node"] = "one a node"
    encrypt = False
    fan_in: int | None = None
    """Most children of a Root. None: one Root for all groups."""
    placement: Literal["auto", "buffer"] = "auto"

    def unable_on(self, workload: Workload, nodes: int) -> str | None:
        if workload.environments % nodes:
            return f"{workload.environments} environments cannot be shared by {nodes} nodes"
        return None

    def deviations(self, task: Task) -> list[str]:
        low = [BFLOAT16] * (self.config(task).precision == "bf16")
        if self.groups == "one" or task.nodes == 1:
            return low
        told = (
            f"{task.nodes} learners, each with the environments of its node, train on rounds of their own and are averaged "
            f"every {task.workload.fusion_rounds} rounds (local SGD): minibatches are not larger, but there are {task.nodes} "
            "of them at a time."
        )
        shared = (
            " Replay and steps before learning begins are shared out among them."
            if task.workload.hyperparameters.replays
            else ""
        )
        return [*low, told + shared]

    def config(self, task: Task) -> TrainConfig:
        groups = task.nodes if self.groups == "one a node" else 1
        discipline = str(task.options.get("discipline", _usual(task)))
        return self._config(
            task,
            actors=actors_for(task, discipline) * (1 if groups == task.nodes else task.nodes),
            groups=groups,
            encrypt=self.encrypt,
            fan_in=self.fan_in,
            placement=self.placement,
            chunk_slots=2 if discipline == "strict" else SLOTS,
        )

    def space(self, task: Task) -> Space:
        actors = {*equal_parts(task.workload, len(task.cores)), actors_for(task)}
        choices: dict[str, tuple[Scalar, ...]] = {
            "actors": tuple(sorted(actors)),
            "discipline": tuple(dict.fromkeys((_usual(task), "relaxed", "one-sided"))),
        }
        first: list[dict[str, Scalar]] = [
            {"actors": actors_for(task), "discipline": rule} for rule in (_usual(task), "relaxed")
        ]
        if task.workload.ppo is not None and task.workload.network.kind == "mlp-separate":
            # Others clip the two networks apart: it is tried beside every rule.
            name = "ppo.clip_gradients"
            choices[name] = ("together", "each")
            first = [one | {name: task.workload.ppo.clip_gradients} for one in first] + [first[0] | {name: "each"}]
        return super().space(task).extended(choices, *first)


def _usual(task: Task) -> str:
    """The default discipline of a task's algorithm."""
    return task.workload.hyperparameters.discipline


class Apart(TianJi):
    """TianJi whose actors all have processes of their own, as they have with an environment that is not shipped."""

    name = "tianji-apart"
    title = "TianJi, actors apart"
    placement = "buffer"

    def unable(self, workload: Workload) -> str | None:
        return None if workload.algo == "ppo" else "its actors are apart as it is; ask for tianji"


class OneLearner(TianJi):
    """TianJi with a single learner on the first node, which separates the gain of groups from the gain of decoupling."""

    name = "tianji-one-learner"
    title = "TianJi, one learner"
    groups = "one"


class Encrypted(TianJi):
    """TianJi whose traffic between nodes is encrypted and authenticated."""

    name = "tianji-curve"
    title = "TianJi, encrypted"
    encrypt = True


class TreeOfTwo(TianJi):
    """TianJi whose Roots form a tree and have two children each."""

    name = "tianji-fan-in-2"
    title = "TianJi, Roots of two"
    fan_in = 2


class TreeOfFour(TianJi):
    """TianJi whose Roots form a tree and have up to four children each."""

    name = "tianji-fan-in-4"
    title = "TianJi, Roots of four"
    fan_in = 4


class Relaxed(SameCode):
    """TianJi with the relaxed discipline: actors sample while the learner trains, within the bound on staleness."""

    name = "tianji-relaxed"
    title = "TianJi, relaxed"
    discipline = "relaxed"

    def unable(self, workload: Workload) -> str | None:
        relaxed = workload.hyperparameters.discipline == self.discipline
        return "it is relaxed as it is; ask for tianji" if relaxed else None

    def deviations(self, task: Task) -> list[str]:
        if task.workload.algo != "ppo":
            return super().deviations(task)
        bound = self.config(task).rule.bound
        age = f"up to {bound} rounds of updates" if bound is not None else "any number of updates"
        return [
            f"Samples may be of a policy {age} older than the one they train, and are corrected for: its like is asynchronous "
            "PPO, not PPO.",
            *super().deviations(task),
        ]

    def config(self, task: Task) -> TrainConfig:
        actors = actors_for(task, self.discipline)
        return self._config(task, actors=actors, chunk_slots=SLOTS, discipline=self.discipline)


class OneSided(Relaxed):
    """Ablation: the learner waits for samples, and actors wait for free memory only."""

    name = "tianji-one-sided"
    title = "TianJi, one-sided"
    discipline = "one-sided"

    def unable(self, workload: Workload) -> str | None:
        return None


class Unbalanced(OneSided):
    """Ablation: no balance and no bound. A learner with a replay does not wait either."""

    name = "tianji-unbalanced"
    title = "TianJi, no balance"
    discipline = "off"

    def deviations(self, task: Task) -> list[str]:
        return [*super().deviations(task), *FREE_RUNNING] if task.workload.hyperparameters.replays else super().deviations(task)


class AsPublished(SameCode):
    """Behaviour of the released system, built from the same parts.

    Its cadences are not coupled and its sizes are set by hand. Actors send `SEND_STEPS` steps at a time. A buffer gathers a
    message from every actor. A learner with a replay updates without pause and publishes after every round. On policy, weights
    reach the actors through the Root, for which all wait. There is no bound on staleness.
    """

    name = "tianji-as-published"
    title = "TianJi as published"
    SEND_STEPS = 16

    def unable(self, workload: Workload) -> str | None:
        return "the released system has PPO and DQN only" if workload.algo not in ("ppo", "dqn") else None

    def deviations(self, task: Task) -> list[str]:
        told = [
            "The released system's discipline, by its description, on this project's parts: nothing of its code, its MPI "
            "messages or its busy polling."
        ]
        return [*told, *FREE_RUNNING] if task.workload.hyperparameters.replays else told

    def config(self, task: Task) -> TrainConfig:
        actors = actors_for(task)
        if task.workload.dqn is None:
            return self._config(task, actors=actors, chunk_slots=2, root=True)
        environments = task.workload.environments // actors
        steps = math.gcd(task.workload.dqn.train_every_steps // environments, self.SEND_STEPS)
        return self._config(task, actors=actors, chunk_slots=SLOTS, send_steps=steps, batch_chunks=actors, discipline="off")


def actors_for(task: Task, discipline: str = "strict") -> int:
    """Number of actors of a node: the workload's, or one per core if the environments divide evenly.

    An on-policy learner waits while actors sample, so it needs no core. A learner with a replay gets its own core, if there are
    two. Where pictures are sampled beside training, there are as many as TianJi itself takes.
    """
    if isinstance(task.workload.actors, int):
        return max(1, task.workload.actors // task.nodes)
    cores = len(task.cores) if task.cluster is None else int(task.cluster.nodes[0].cores or len(task.cores))
    most, environments = cores - task.workload.hyperparameters.replays, task.workload.environments // task.nodes
    fitting = max(n for n in range(1, max(1, most) + 1) if environments % n == 0)
    if samples_beside(discipline) and (share := SameCode()._config(task, actors=1).sampling_share) is not None:
        return min(fitting, actors_by_need(share, cores, environments))
    return fitting


GOAL = "goal"
"""Reason for the end of a run that has reached its training return."""
COUNTED = ("samples_produced", "samples_consumed", "samples_consumed_unique")
"""Counters of a role that show its progress."""


class Listener:
    """Listener that passes reports of roles to the recorder, and ends the run when the recorder allows it."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._steps: dict[str, int] = {}

    def __call__(self, message: Heard) -> str | None:
        match message:
            case Started(role=role, at_ns=at) if role.startswith(("actor", "explorer")):
                self.recorder.first_step(at)
            case Episodes(role=role, episodes=episodes):
                others = sum(steps for name, steps in self._steps.items() if name != role)
                for e in episodes:
                    self.recorder.episode(e.at_ns, e.episode_return, e.length, others + e.actor_steps)
                self._steps[role] = message.actor_steps
            case Snapshot(version=version, steps=steps, at_ns=at, weights=weights):
                self.recorder.snapshot(at, steps, version, np.frombuffer(weights, "<f4"))
                return GOAL if self.recorder.may_end else None
            case Progress(role=role, at_ns=at, counters=counters):
                self.recorder.progress(at, role, {name: counters[name] for name in COUNTED if name in counters})
            case Choice(discipline=name):
                self.recorder.counter(f"chosen_{name.replace('-', '_')}", 1.0)
                for what in ("rho", "spread", "gain", "price"):
                    if (value := getattr(message, what)) is not None:
                        self.recorder.counter(f"choice_{what}", value)
            case Report(role=role):
                self.recorder.process(role, message.busy_s, message.wait_s, message.cpu_s, message.peak_rss_bytes)
                for name, value in message.counters.items():
                    self.recorder.counter(f"{role.split()[0]}_{name}", value, role)
                for name, counts in message.histograms.items():
                    self.recorder.histogram(f"{role.split()[0]}_{name}", counts)
        return None
