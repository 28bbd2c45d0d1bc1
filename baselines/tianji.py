"""The reference implementation as a system under test, and the plain synchronous system made of the same code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from baselines.system import Recorder, System, Task
from baselines.workload import Workload
from tianji.config import DQNConfig, IMPALAConfig, PPOConfig, TrainConfig
from tianji.launch.node import Cluster
from tianji.launch.supervisor import Heard
from tianji.messages import Episodes, Progress, Report, Snapshot, Started
from tianji.settings import paths, replaced
from tianji.training import train

if TYPE_CHECKING:
    from baselines.certificate import Evidence, Frozen


class SameCode(System):
    """Runs `tianji.train` with a configuration of its own."""

    def available(self) -> str | None:
        return None

    def deviations(self, task: Task) -> list[str]:
        return []

    def config(self, task: Task) -> TrainConfig:
        """The task in TianJi's terms."""
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
            more |= {"launcher": "ray", "ray_address": task.cluster.ray_address, "placement": "STRICT_SPREAD"}
        config = TrainConfig(
            env=w.env,
            algo=w.algo,
            seed=task.seed,
            groups=groups,
            actors=actors,
            envs_per_actor=w.environments // (actors * groups),
            fusion_rounds=w.fusion_rounds,
            # Only a network that nobody else is on is one for plaintext.
            encrypt=encrypt or not _private(task.cluster),
            network=w.network,
            ppo=w.ppo or PPOConfig(),
            dqn=_share(w.dqn, groups),
            impala=w.impala or IMPALAConfig(),
            atari=w.games,
            simulator=w.simulator,
            horizon_steps=w.horizon_steps,
            stop_steps=w.budget_steps,
            stop_seconds=w.budget_seconds,
            snapshot_every_steps=w.snapshot_every_steps,
            # What dies is a result here, and nothing is stored while others are measured that store nothing.
            checkpoint_seconds=None,
            restarts=0,
            **more,
        )
        return replaced(config, task.options) if task.options else config

    def takes(self, option: str) -> bool:
        return option in paths(TrainConfig)


def _private(cluster: Cluster | None) -> bool:
    """Whether what goes between nodes stays on this machine: they are emulated, or addresses of its loopback."""
    return cluster is not None and all(node.namespace or node.address.startswith("127.") for node in cluster.nodes)


def _share(dqn: DQNConfig | None, groups: int) -> DQNConfig:
    """What of a replay is a group's: groups share its size, and the steps before learning begins."""
    if dqn is None or groups == 1:
        return dqn or DQNConfig()
    return msgspec.structs.replace(
        dqn,
        replay_capacity=-(-dqn.replay_capacity // groups),
        learning_starts=max(dqn.batch_size, -(-dqn.learning_starts // groups)),
    )


class Sync(SameCode):
    """One actor process and the learner, each waiting for the other: what relaxing dependencies is measured against."""

    name = "sync"
    title = "synchronous (same code)"

    def config(self, task: Task) -> TrainConfig:
        return self._config(task, actors=1, buffer=False, chunk_slots=1)


SLOTS = 8
"""Chunks of an actor in flight at most, where nobody waits for fresh weights: how many are, the balance decides."""


FREE_RUNNING = (
    "The learner updates without waiting for samples: updates for each environment step are not those of the workload.",
)


class TianJi(SameCode):
    """Actors, buffer and learner as separate processes; on several nodes a group of them on each, and a Root on the first.

    PPO waits for weights (strict), and its groups for each other. Off policy an actor fills its next fragments while the
    learner trains, as far as the two-sided balance lets it, and no group waits.
    """

    name = "tianji"
    title = "TianJi"
    groups: Literal["one", "one a node"] = "one a node"
    encrypt = False

    def unable_on(self, workload: Workload, nodes: int) -> str | None:
        if workload.environments % nodes:
            return f"{workload.environments} environments cannot be shared by {nodes} nodes"
        return None

    def deviations(self, task: Task) -> list[str]:
        if self.groups == "one" or task.nodes == 1:
            return []
        told = (
            f"{task.nodes} learners, each with the environments of its node, train on rounds of their own and are averaged "
            f"every {task.workload.fusion_rounds} rounds (local SGD): minibatches are not larger, but there are {task.nodes} "
            "of them at a time."
        )
        shared = " Replay and steps before learning begins are shared out among them." if task.workload.dqn else ""
        return [told + shared]

    def config(self, task: Task) -> TrainConfig:
        groups = task.nodes if self.groups == "one a node" else 1
        return self._config(
            task,
            actors=actors_for(task) * (1 if groups == task.nodes else task.nodes),
            groups=groups,
            encrypt=self.encrypt,
            chunk_slots=2 if task.workload.algo == "ppo" else SLOTS,
        )


class OneLearner(TianJi):
    """TianJi whose only learner is on the first node: what groups gain, and what decoupling gains, can be told apart."""

    name = "tianji-one-learner"
    title = "TianJi, one learner"
    groups = "one"


class Encrypted(TianJi):
    """TianJi whose traffic between nodes is encrypted and authenticated."""

    name = "tianji-curve"
    title = "TianJi, encrypted"
    encrypt = True


class Relaxed(SameCode):
    """TianJi whose actors sample on while the learner trains, within the lag bound; what is stale is corrected for."""

    name = "tianji-relaxed"
    title = "TianJi, relaxed"
    mode: Literal["two-sided", "one-sided", "off"] = "two-sided"

    def unable(self, workload: Workload) -> str | None:
        return None if workload.algo == "ppo" else "it is relaxed as it is; ask for tianji"

    def deviations(self, task: Task) -> list[str]:
        if task.workload.algo != "ppo":
            return []
        bound = self.config(task).most_lag_rounds
        age = f"up to {bound} rounds of updates" if bound is not None else "any number of updates"
        return [
            f"Samples may be of a policy {age} older than the one they train, and are corrected for: its like is asynchronous "
            "PPO, not PPO."
        ]

    def config(self, task: Task) -> TrainConfig:
        discipline: Literal["strict", "relaxed"] = "relaxed" if task.workload.algo == "ppo" else "strict"
        return self._config(task, actors=actors_for(task), chunk_slots=SLOTS, discipline=discipline, balance=self.mode)


class OneSided(Relaxed):
    """The ablation: the learner waits for samples, actors for nothing but memory."""

    name = "tianji-one-sided"
    title = "TianJi, one-sided"
    mode: Literal["two-sided", "one-sided", "off"] = "one-sided"

    def unable(self, workload: Workload) -> str | None:
        return None


class Unbalanced(OneSided):
    """The ablation: no balance and no bound; a learner with a replay waits for nothing either."""

    name = "tianji-unbalanced"
    title = "TianJi, no balance"
    mode = "off"

    def deviations(self, task: Task) -> list[str]:
        return [*super().deviations(task), *FREE_RUNNING] if task.workload.algo == "dqn" else super().deviations(task)


class AsPublished(SameCode):
    """The released system's behaviour on the same parts.

    Cadences run free and sizes are picked by hand: actors send `SEND_STEPS` steps at a time, a buffer gathers a message of
    every actor, a learner with a replay updates without end and publishes every round. On policy, weights go to the actors
    by way of the Root, which everybody waits for. There is no bound on staleness.
    """

    name = "tianji-as-published"
    title = "TianJi as published"
    SEND_STEPS = 16

    def unable(self, workload: Workload) -> str | None:
        return "the released system has PPO and DQN only" if workload.algo == "impala" else None

    def deviations(self, task: Task) -> list[str]:
        told = [
            "The released system's discipline, by its description, on this project's parts: nothing of its code, its MPI "
            "messages or its busy polling."
        ]
        return [*told, *FREE_RUNNING] if task.workload.algo == "dqn" else told

    def config(self, task: Task) -> TrainConfig:
        actors = actors_for(task)
        if task.workload.dqn is None:
            return self._config(task, actors=actors, chunk_slots=2, root=True)
        environments = task.workload.environments // actors
        steps = math.gcd(task.workload.dqn.train_every_steps // environments, self.SEND_STEPS)
        return self._config(task, actors=actors, chunk_slots=SLOTS, send_steps=steps, batch_chunks=actors, balance="off")


def actors_for(task: Task) -> int:
    """Actors of a node: as many as the workload asks for, or as many as the node has cores, if its environments divide among
    them: while actors sample, an on-policy learner waits.

    One that draws from a replay never does: it has a core of its own, if there are two.
    """
    if isinstance(task.workload.actors, int):
        return max(1, task.workload.actors // task.nodes)
    cores = len(task.cores) if task.cluster is None else int(task.cluster.nodes[0].cores or len(task.cores))
    most, environments = cores - (task.workload.algo == "dqn"), task.workload.environments // task.nodes
    return max(n for n in range(1, max(1, most) + 1) if environments % n == 0)


GOAL = "goal"
"""Why a run ends that has reached its training return."""
COUNTED = ("samples_produced", "samples_consumed", "samples_consumed_unique")
"""What of a role's counters says how far it is."""


class Listener:
    """Passes on what the roles report, and says when the recorder lets the run end."""

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
            case Report(role=role):
                self.recorder.process(role, message.busy_s, message.wait_s, message.cpu_s, message.peak_rss_bytes)
                for name, value in message.counters.items():
                    self.recorder.counter(f"{role.split()[0]}_{name}", value, role)
                for name, counts in message.histograms.items():
                    self.recorder.histogram(f"{role.split()[0]}_{name}", counts)
        return None
