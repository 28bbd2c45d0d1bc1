"""Adoption of a mean of groups by a learner's worker."""

import msgspec
import numpy as np
import pytest

from tianji.averaging import Stamp, pack
from tianji.config import DQNConfig, NetworkConfig
from tianji.environments.making import describe
from tianji.messages import ChunkHeader, SlotRef
from tianji.roles.actor import Rollout
from tianji.roles.updating import Adopt, Adopted, Update
from tianji.topology import chunk_layout
from tianji.worlds.sampler import Sampler
from tianji.worlds.trainer import Trainer

CARTPOLE = describe("CartPole-v1")
STAMPS = (Stamp(1, 10, 10), Stamp(1, 0, 10))


class Rig:
    """A trainer, and chunks that a sampler really made."""

    def __init__(self, config):
        self.config, self.layout = config, chunk_layout(config, CARTPOLE)
        self.slots = {}
        self.trainer = Trainer(config, CARTPOLE, self.slots.__getitem__)
        self.sampler = Sampler(config, CARTPOLE, self.layout, self._fresh, 0, lambda: 0)
        self.made = 0

    def _fresh(self, slot):
        return self.slots.setdefault(slot, self.layout.views(bytearray(self.layout.capacity_bytes)))

    def train(self):
        chunks = []
        for _ in range(self.config.round_chunks):
            done = self.sampler.run(Rollout(SlotRef(0, self.made)))
            chunks.append(ChunkHeader(0, self.made, 0, self.layout.id, done.count, 0, 0, done.slot))
            self.made += 1
        assert self.trainer.run(Update(chunks, 0)).optimizer_steps > 0
        return self.trainer.weights().copy()

    def adopt(self, mean):
        pack(self.trainer.inbox("root"), mean, STAMPS)
        assert self.trainer.run(Adopt()) == Adopted()
        return self.trainer.weights().copy()


@pytest.fixture(params=["ppo", "dqn", "torch"])
def rig(small, request):
    config = small(groups=2, actors=1, updater="torch" if request.param == "torch" else "auto")
    if request.param == "dqn":
        config = msgspec.structs.replace(
            config,
            algo="dqn",
            envs_per_actor=1,
            network=NetworkConfig(kind="mlp-q", hidden=(16,)),
            dqn=DQNConfig(train_every_steps=64, updates=4, batch_size=16, learning_starts=0),
        )
    rig = Rig(config)
    yield rig
    rig.sampler.close()


def test_a_mean_without_steps_since_the_push_is_taken_as_it_is(rig):
    pushed = rig.train()
    assert np.array_equal(rig.trainer.push(STAMPS)[: len(pushed)], pushed)
    mean = (pushed * np.float32(1.1)).astype(np.float32)
    assert np.array_equal(rig.adopt(mean), mean)


def test_what_was_learned_since_the_push_is_kept_on_top_of_the_mean(rig):
    pushed = rig.train()
    rig.trainer.push(STAMPS)
    later = rig.train()
    assert not np.array_equal(later, pushed)
    mean = (pushed + np.float32(0.25)).astype(np.float32)
    adopted = rig.adopt(mean)
    assert np.allclose(adopted, mean + (later - pushed), atol=1e-6)
    # The same push is in a second mean, because the other group pushed again: only what is new in it counts.
    second = (mean + np.float32(0.5)).astype(np.float32)
    assert np.allclose(rig.adopt(second), second + (later - pushed), atol=1e-6)


def test_the_optimizer_and_the_target_network_stay_as_they_are(rig):
    pushed = rig.train()
    rig.trainer.push(STAMPS)
    updater = rig.trainer.algorithm.updater
    if rig.config.updater == "torch":
        before = [updater.optimizer.state[updater.flat][name].clone() for name in ("exp_avg", "exp_avg_sq", "step")]
    else:
        before = [updater.adam.first_moment.copy(), updater.adam.second_moment.copy(), updater.adam.steps]
    target = updater.target.copy() if rig.config.algo == "dqn" else None
    rig.adopt(pushed + np.float32(1))
    if rig.config.updater == "torch":
        after = [updater.optimizer.state[updater.flat][name] for name in ("exp_avg", "exp_avg_sq", "step")]
    else:
        after = [updater.adam.first_moment, updater.adam.second_moment, updater.adam.steps]
    for was, remains in zip(before, after, strict=True):
        assert np.array_equal(np.asarray(was), np.asarray(remains))
    assert np.any(np.asarray(before[0]))
    if target is not None:
        assert np.array_equal(target, updater.target)


class Waited:
    """Time that passes only while somebody waits."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize(("world", "waited"), [("real", 0.02), ("lockstep", 0.0)])
def test_a_round_can_take_as_long_as_on_an_accelerator_in_slices(small, monkeypatch, world, waited):
    time = Waited()
    monkeypatch.setattr("tianji.worlds.trainer.time", time)
    rig = Rig(small(actors=1, world=world, update_seconds=0.02))
    done = rig.sampler.run(Rollout(SlotRef(0, 0)))
    chunks = [ChunkHeader(0, 0, 0, rig.layout.id, done.count, 0, 0, done.slot)]
    quick = Rig(small(actors=1))
    quick.sampler.run(Rollout(SlotRef(0, 0)))
    native = sum(1 for _ in quick.trainer.work(Update(chunks, 0)))
    assert time.now == 0
    slices = sum(1 for _ in rig.trainer.work(Update(chunks, 0)))
    assert time.now == pytest.approx(waited)
    # Messages are read every 2.5 ms.
    assert slices - native == waited * 400
    assert np.array_equal(rig.trainer.weights(), quick.trainer.weights())
