"""XingTian's discipline end to end: it trains what the synchronous system trains, waits as it should, and ends in order."""

import os
import signal
import time

import msgspec
import numpy as np
import psutil
import pytest
from small_runs import DQN, LONG, PPO, Memory

from baselines import system
from baselines.xingtian.mail import Mail
from tianji.config import SimulatorConfig
from tianji.launch.events import RoleFailed
from tianji.telemetry import Account


def run(name, workload, cores=(0, 1), on_snapshot=None):
    memory, under_test = Memory(), system.get(name)
    memory.on_snapshot = on_snapshot
    task = system.Task(name, workload, 3, cores)
    try:
        under_test.prepare(task, memory)
        under_test.train(task, memory)
    finally:
        under_test.stop()
    return memory


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("value_clip", [None, 0.2])
def test_ppo_trains_the_same_policies_as_the_synchronous_system_to_the_bit(value_clip):
    # With one explorer: some kernels of BLAS give a row other last bits in a larger matrix.
    workload = msgspec.structs.replace(PPO, ppo=msgspec.structs.replace(PPO.ppo, value_clip=value_clip))
    ours, sync = run("xingtian", workload, (0,)), run("sync", workload, (0,))
    assert [s[1] for s in ours.snapshots] == [0, 512, 1024, 1536, 2048]
    assert [s[1:3] for s in ours.snapshots] == [s[1:3] for s in sync.snapshots]
    for (*_, our_weights), (*_, their_weights) in zip(ours.snapshots, sync.snapshots, strict=True):
        assert np.array_equal(our_weights, their_weights)
    assert sorted(e[1:3] for e in ours.episodes) == sorted(e[1:3] for e in sync.episodes)
    assert not np.array_equal(ours.snapshots[0][3], ours.snapshots[-1][3])


@pytest.mark.long(why="whole runs of real processes")
def test_two_explorers_make_of_a_round_what_one_process_makes_of_it():
    round_of = msgspec.structs.replace(PPO, budget_steps=140, snapshot_every_steps=128)
    ours, sync = run("xingtian", round_of), run("sync", round_of)
    assert [s[1:3] for s in ours.snapshots] == [s[1:3] for s in sync.snapshots] == [(0, 0), (128, 8)]
    before, after, theirs = ours.snapshots[0][3], ours.snapshots[1][3], sync.snapshots[1][3]
    # Eight steps of Adam at 1e-3, and the same ones.
    assert np.abs(after - before).max() > 1e-3
    assert np.abs(after - theirs).max() < 1e-5


def test_the_barrier_holds_and_everybody_accounts_for_their_time():
    told = run("xingtian", PPO)
    assert told.counters["learner_staleness_max_versions"] == 0
    assert told.counters["learner_chunks_arrived"] == 2 * 16
    assert told.counters["learner_chunks_lost"] == told.counters["learner_chunks_duplicated"] == 0
    assert told.counters["learner_samples_consumed_unique"] == 2048
    # Fragments come up one by one; a notice comes down to both explorers before the first round and after all but the last.
    assert told.counters["broker_messages_forwarded"] == 2 * 16 + 2 * 16
    assert set(told.processes) == {"learner", "broker", "explorer 0", "explorer 1"}
    busy, wait = told.processes["learner"]
    assert {"update", "serialise", "send"} <= set(busy)
    assert wait["samples"] > 0
    busy, wait = told.processes["explorer 1"]
    assert {"env", "infer", "serialise", "send"} <= set(busy)
    assert wait["weights"] > 0
    assert 1 <= len(told.first_steps) <= 2
    assert min(told.first_steps) < told.snapshots[1][0]


@pytest.mark.parametrize(("cores", "explorers"), [((0,), 1), ((0, 1, 2), 2)])
def test_dqn_keeps_the_ratio_of_steps_and_updates_and_runs_ahead_by_its_slots_only(cores, explorers):
    told = run("xingtian", DQN, cores)
    assert told.counters["learner_steps"] == 2048
    # Rounds end at multiples of 64; the first that ends with 500 steps or more in the replay is the 8th of 32.
    assert told.counters["learner_optimizer_steps"] == 8 * (32 - 7)
    assert told.counters["learner_chunks_arrived"] >= 32 * explorers
    produced = told.counters["explorer_chunks_produced"]
    assert produced <= (32 + 2) * explorers
    if explorers == 1:
        # A second fragment is filled while the first is trained on: at most the updates of two rounds are missing in it.
        assert told.counters["learner_staleness_max_versions"] <= 2 * 8
    assert [s[1] for s in told.snapshots] == [0, 512, 1024, 1536, 2048]


@pytest.mark.long(why="whole runs of real processes")
def test_no_explorer_is_held_up_by_slower_ones_where_a_replay_takes_fragments_in():
    # Steps of the first environment take a thirtieth, or less, of what others' take, and a round is as much as one each.
    simulator = SimulatorConfig(step_seconds=0.02, spread=100.0, spread_over=4)
    told = run("xingtian", msgspec.structs.replace(DQN, simulator=simulator), range(5))
    first, *others = (told.by_role[f"explorer {i}", "explorer_chunks_produced"] for i in range(4))
    assert first > 3 * sum(others) > 0


def test_seconds_end_a_run_with_a_last_snapshot():
    told = run("xingtian", msgspec.structs.replace(LONG, budget_seconds=0.5, snapshot_every_steps=1_000_000))
    assert [s[1] for s in told.snapshots] == [0, told.counters["learner_steps"]]
    assert told.counters["learner_steps"] > 0


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("name", ["xt-explorer 1", "xt-broker", "xt-learner"])
def test_a_process_that_is_killed_fails_the_run_in_words(name):
    names = set()

    def kill():
        for child in psutil.Process().children():
            names.add(child.name())
            if child.name() == name:
                os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(RoleFailed, match=rf"{name[3:]} ended with status -9"):
        run("xingtian", LONG, on_snapshot=kill)
    assert names >= {"xt-learner", "xt-broker", "xt-explorer 0", "xt-explorer 1"}


def test_a_process_that_fails_says_why():
    with pytest.raises(RoleFailed, match=r"explorer \d failed: .*NoSuchEnv"):
        _run_in_an_environment_that_children_do_not_know()


def _run_in_an_environment_that_children_do_not_know():
    import gymnasium as gym

    gym.register("NoSuchEnv-v0", entry_point=lambda: gym.make("CartPole-v1"))
    try:
        run("xingtian", msgspec.structs.replace(PPO, env="NoSuchEnv-v0"))
    finally:
        del gym.registry["NoSuchEnv-v0"]


def test_an_interrupt_leaves_no_process():
    def interrupt():
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run("xingtian", LONG, on_snapshot=interrupt)
    assert time.monotonic() - start < 10


def test_what_a_thread_raises_reaches_the_thread_that_takes(tmp_path):
    zmq = pytest.importorskip("zmq")
    from tianji.messages import Hello, Report, Start, Stop, decode_from_role, encode

    def spoilt(frame):
        raise ValueError("not what was agreed")

    base = f"ipc://{tmp_path}"
    with zmq.Context() as context, context.socket(zmq.ROUTER) as launcher, context.socket(zmq.PUSH) as peer:
        launcher.bind(f"{base}/control")
        peer.connect(f"{base}/in")
        with Mail(Account(), f"{base}/control", f"{base}/in", f"{base}/out", spoilt) as mail:
            peer.send(b"anything")
            launcher.setsockopt(zmq.LINGER, 0)
            route = _greet(mail, launcher, Hello("learner", 1, 0), encode(Start()))
            with pytest.raises(ValueError, match="not what was agreed"):
                mail.take("samples")
            launcher.send_multipart([route, encode(Stop("test"))])
            mail.finish(lambda: Report("learner", {}, {}, {}, 0.0, 0))
        assert isinstance(decode_from_role(launcher.recv_multipart()[1]), Report)


def _greet(mail, launcher, hello, start):
    """Answer the hello from another thread, as a launcher would."""
    import threading

    routes = []

    def answer():
        routes.append(launcher.recv_multipart()[0])
        launcher.send_multipart([routes[0], start])

    thread = threading.Thread(target=answer)
    thread.start()
    assert mail.begin(hello)
    thread.join()
    return routes[0]
