"""XingTian's discipline on several nodes: the same policies, what has to travel travels once, and nothing is left behind."""

import os
import signal

import msgspec
import numpy as np
import psutil
import pytest
import two_ray_nodes
import xingtian_on_a_cluster
import zmq
from small_runs import DQN, IMPALA, LONG, PPO, Memory

from baselines import system
from baselines.tianji import Listener
from baselines.xingtian import launch
from baselines.xingtian.abroad import COMPRESS_FROM_BYTES, LatestWeights, WeightsLink, pack, take_weights, unpack
from baselines.xingtian.assignment import node_of
from baselines.xingtian.messages import address, addressees
from tianji.channel.arena import anonymous_file
from tianji.channel.board import WeightBoard
from tianji.config import AtariConfig, NetworkConfig
from tianji.launch.events import RoleFailed
from tianji.launch.node import Cluster, Node
from tianji.messages import ProtocolError
from tianji.topology import chunk_layout

TWO = Cluster((Node("127.0.0.1", cores=1.0), Node("127.0.0.2", cores=1.0)))


def config(workload, **settings):
    task = system.Task("xingtian", workload, 3, (0, 1), TWO)
    return msgspec.structs.replace(system.get("xingtian").config(task), **settings)


def run(workload, cluster, on_snapshot=None, **settings):
    memory = Memory()
    memory.on_snapshot = on_snapshot
    launch.run(config(workload, **settings), Listener(memory), cluster)
    return memory


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("encrypt", [False, True])
def test_nodes_train_the_same_policies_as_one_host_and_weights_cross_once(encrypt):
    explorers = {"actors": 4, "envs_per_actor": 2}
    told, alone = run(PPO, TWO, encrypt=encrypt, **explorers), run(PPO, None, **explorers)
    assert [s[1] for s in told.snapshots] == [0, 512, 1024, 1536, 2048]
    for (*_, ours), (*_, theirs) in zip(told.snapshots, alone.snapshots, strict=True):
        assert np.array_equal(ours, theirs)
    assert set(told.processes) == {"learner", "broker 0", "broker 1", *(f"explorer {i}" for i in range(4))}
    assert set(alone.processes) == {"learner", "broker", *(f"explorer {i}" for i in range(4))}
    # Two explorers are on the second node. Before the first round and after all but the last it is sent weights.
    assert told.by_role["broker 0", "broker_weights_sent"] == 16
    assert told.by_role["broker 0", "broker_payload_bytes_sent"] == 16 * told.snapshots[0][3].nbytes
    layout = chunk_layout(config(PPO, **explorers), PPO.describe(), assessed=True)
    sent = told.by_role["broker 1", "broker_payload_bytes_sent"]
    assert 32 * layout.size_bytes(0) <= sent <= 32 * layout.capacity_bytes
    assert "broker_payload_bytes_sent" not in alone.counters
    assert told.counters["learner_staleness_max_versions"] == 0
    assert told.counters["learner_chunks_arrived"] == 4 * 16
    # Two epochs.
    assert told.counters["learner_samples_consumed_unique"] == 2048
    assert told.counters["learner_samples_consumed"] == 2 * 2048


@pytest.mark.long(why="whole runs of real processes")
def test_dqn_and_impala_consume_what_comes_from_everywhere_and_run_ahead_by_their_slots_only():
    told = run(DQN, TWO)
    assert told.counters["learner_steps"] == 2048
    # Rounds end at multiples of 64; the first that ends with 500 steps or more in the replay is the 8th of 32.
    assert told.counters["learner_optimizer_steps"] == 8 * (32 - 7)
    assert told.counters["learner_samples_consumed"] == 16 * 8 * (32 - 7)
    assert 0 < told.by_role["broker 0", "broker_weights_sent"] <= 1 + (32 - 7)
    for explorer in ("explorer 0", "explorer 1"):
        assert told.by_role[explorer, "explorer_chunks_produced"] <= 64
    assert sum(told.by_role[f"explorer {i}", "explorer_chunks_produced"] for i in (0, 1)) <= (32 + 2) * 2
    told = run(IMPALA, TWO)
    assert told.counters["learner_samples_consumed"] == told.counters["learner_samples_consumed_unique"] == 2048
    assert told.counters["learner_chunks_lost"] == told.counters["learner_chunks_duplicated"] == 0


@pytest.mark.long(why="whole runs of real processes")
def test_everybody_says_how_far_they_are():
    told = run(msgspec.structs.replace(LONG, budget_seconds=2.5, snapshot_every_steps=1_000_000), TWO)
    assert set(told.progresses) == {"learner", "explorer 0", "explorer 1"}
    for role, progress in told.progresses.items():
        names = {"samples_consumed", "samples_consumed_unique"} if role == "learner" else {"samples_produced"}
        times, counts = zip(*progress, strict=True)
        assert len(progress) >= 2
        assert list(times) == sorted(times)
        for name in names:
            values = [count[name] for count in counts]
            assert values == sorted(values)
            assert values[-1] > values[0] > 0
        assert all(set(count) == names for count in counts)


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("name", ["explorer 1", "broker 0", "broker 1"])
def test_a_process_that_is_killed_ends_the_run_in_words(name):
    victims = []

    def kill():
        for child in psutil.Process().children():
            if child.name() == f"xt-{name}":
                victims.append(child.pid)
                os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(RoleFailed, match=rf"^{name} ended with status -9"):
        run(LONG, TWO, kill, encrypt=False)
    assert victims


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("ray")
def test_two_ray_nodes_train_what_one_host_trains(ray_nodes):
    told = two_ray_nodes.ask(xingtian_on_a_cluster, ray_nodes, timeout=580)
    alone = run(PPO, None)
    assert np.array_equal(np.array(told["weights"], np.float32), np.array([s[3] for s in alone.snapshots]))
    assert told["processes"] == ["broker 0", "broker 1", "explorer 0", "explorer 1", "learner"]
    assert told["cause"].startswith("broker 1 ended with")
    assert told["left"] == []


def test_explorers_and_environments_are_dealt_out_evenly():
    assert [node_of(i, 8, 4) for i in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    xingtian = system.get("xingtian")
    assert xingtian.unable_on(PPO, 8) is None
    assert "8 environments" in xingtian.unable_on(PPO, 3)
    assert (config(PPO).actors, config(PPO).envs_per_actor) == (2, 4)


def test_only_large_bodies_between_nodes_are_compressed():
    pytest.importorskip("lz4")
    xingtian = system.get("xingtian")
    games = msgspec.structs.replace(
        PPO,
        env="ALE/Pong-v5",
        atari=AtariConfig(),
        network=NetworkConfig(kind="nature-shared"),
        ppo=msgspec.structs.replace(PPO.ppo, rollout_steps=128),
    )
    between, alone = system.Task("xingtian", games, 3, (0, 1), TWO), system.Task("xingtian", games, 3, (0, 1))
    assert xingtian.settings(between)["compression"] == "lz4 between nodes"
    assert not any("compressed" in text for text in xingtian.deviations(between))
    assert xingtian.settings(alone)["compression"] is None
    assert any("none leaves its node" in text for text in xingtian.deviations(alone))
    small = system.Task("xingtian", PPO, 3, (0, 1), TWO)
    assert xingtian.settings(small)["compression"] is None
    assert any("none here is that large" in text for text in xingtian.deviations(small))


def test_a_body_comes_as_it_went():
    pytest.importorskip("lz4")
    size = COMPRESS_FROM_BYTES + 1
    noise = np.random.default_rng(0).bytes(size)
    for body, smaller in ((b"frame" * size, True), (noise, False), (b"0" * COMPRESS_FROM_BYTES, False)):
        packed = pack(memoryview(body), compress=True)
        assert (len(packed) < len(body)) is smaller
        assert len(pack(memoryview(body), compress=False)) == len(body)
        come = bytearray(len(body))
        unpack(memoryview(packed), memoryview(come))
        assert come == body
    for spoilt in (b"0" * 5, b"0" * (size + 1)):
        with pytest.raises(ProtocolError):
            unpack(memoryview(spoilt), memoryview(bytearray(size)))


def test_a_slow_link_keeps_every_notice_and_only_the_newest_weights():
    parameters, total = 1 << 16, 200
    fds = [anonymous_file("test", WeightBoard.size_bytes(parameters)) for _ in range(2)]
    here, there = (WeightBoard(fd, parameters) for fd in fds)
    for fd in fds:
        os.close(fd)
    with zmq.Context() as context, context.socket(zmq.PULL) as inlet, context.socket(zmq.PUSH) as outlet:
        inlet.rcvhwm, outlet.sndhwm, outlet.linger = 1, 1, 0
        port = inlet.bind_to_random_port("tcp://127.0.0.1")
        outlet.connect(f"tcp://127.0.0.1:{port}")
        link = WeightsLink(outlet, LatestWeights(here, parameters), frozenset({1}))
        for version in range(total):
            here.write(version, np.full(parameters, version, np.float32))
            link.put(address([1], weights=True), b"%d" % version, weights=True)
            link.flush()
        # Nothing was read, so sockets and kernel are full and the rest waits here in one piece.
        assert link.vectors < total
        assert link.payload_bytes == link.vectors * 4 * parameters
        notices, seen = [], []
        while len(notices) < total:
            waits = link.flush()
            assert inlet.poll(5000)
            for to, notice in take_weights(inlet.recv_multipart(copy=False), there, parameters):
                assert addressees(to) == (1,)
                notices.append(int(notice))
            seen.append(there.version)
            assert waits or len(seen) <= link.vectors
        vector = np.zeros(parameters, np.float32)
        assert there.read(vector) == total - 1
        assert (vector == total - 1).all()
        assert notices == list(range(total))
        assert seen == sorted(set(seen))
        assert len(seen) == link.vectors
