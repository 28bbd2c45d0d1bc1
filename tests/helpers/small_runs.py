"""Workloads that are trained in a second, and a recorder for tests."""

import msgspec

from baselines.workload import Thresholds, Workload
from tianji.config import DQNConfig, IMPALAConfig, NetworkConfig, PPOConfig

PPO = Workload(
    id="cartpole-ppo-tiny",
    title="CartPole, hardly trained",
    env="CartPole-v1",
    algo="ppo",
    environments=8,
    network=NetworkConfig(kind="mlp-separate", hidden=(32, 32)),
    ppo=PPOConfig(rollout_steps=16, minibatch_size=32, epochs=2, learning_rate=1e-3, learning_rate_schedule="linear"),
    horizon_steps=4096,
    budget_steps=2100,
    budget_seconds=60.0,
    snapshot_every_steps=512,
    thresholds=Thresholds(training=450, evaluated=475),
)
DQN = msgspec.structs.replace(
    PPO,
    id="cartpole-dqn-tiny",
    algo="dqn",
    environments=4,
    network=NetworkConfig(kind="mlp-q", hidden=(32,), activation="relu"),
    ppo=None,
    dqn=DQNConfig(train_every_steps=64, updates=8, batch_size=16, replay_capacity=1000, learning_starts=500),
    budget_steps=2048,
)
IMPALA = msgspec.structs.replace(
    PPO,
    id="cartpole-impala-tiny",
    algo="impala",
    environments=4,
    ppo=None,
    impala=IMPALAConfig(rollout_steps=16),
    budget_steps=2048,
)
LONG = msgspec.structs.replace(PPO, budget_steps=10_000_000)


class Memory:
    """A recorder that keeps what it is told."""

    may_end = False

    def __init__(self):
        self.first_steps, self.episodes, self.snapshots = [], [], []
        self.processes, self.counters, self.histograms = {}, {}, {}
        self.by_role, self.progresses = {}, {}
        self.on_snapshot = None

    def first_step(self, at_ns):
        self.first_steps.append(at_ns)

    def episode(self, at_ns, episode_return, length, steps):
        self.episodes.append((at_ns, episode_return, length, steps))

    def snapshot(self, at_ns, steps, version, weights):
        self.snapshots.append((at_ns, steps, version, weights.copy()))
        if self.on_snapshot:
            self.on_snapshot()

    def process(self, role, busy_s, wait_s, cpu_s, peak_rss_bytes):
        self.processes[role] = (busy_s, wait_s)

    def histogram(self, name, counts):
        self.histograms[name] = dict(counts)

    def counter(self, name, value, role=""):
        self.counters[name] = value
        self.by_role[role, name] = value

    def progress(self, at_ns, role, counts):
        self.progresses.setdefault(role, []).append((at_ns, dict(counts)))


class Enough(Memory):
    """A recorder that lets a run end after so many snapshots."""

    snapshots_wanted = 4

    @property
    def may_end(self):
        return len(self.snapshots) >= self.snapshots_wanted
