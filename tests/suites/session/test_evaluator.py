"""The evaluator: several processes give the same returns as one player in this process."""

import math
import os
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool

import msgspec
import numpy as np
import psutil
import pytest

from programs.cli import ConfigError
from suites.records.events import Snapshot
from suites.session import catalogue
from suites.session.evaluator import WORTH_A_JUDGE, evaluate
from suites.statistics.curves import crossing
from tianji.algorithms import networks
from tianji.policy import Policy, load_policy, save_policy
from tianji.run.play import Player

SNAPSHOTS = 9


def judges():
    return playing_below(psutil.Process())


def playing_below(process):
    return [p for p in process.children() if p.name() == "tj-judge"]


@pytest.fixture
def snapshots(tmp_path):
    """Policies that each push the cart by chance, and hold the pole up for different times."""
    found = []
    for i in range(SNAPSHOTS):
        network = networks.build(catalogue.load("cartpole-ppo-zoo").network, 4, 2)
        file = f"{i}.safetensors"
        save_policy(tmp_path / file, Policy(network, 40 * network.initialise(40 + i)))
        found.append(Snapshot(ns=i, steps=100 * i, version=i, file=file))
    return found


@pytest.fixture
def alone(tmp_path, snapshots):
    """Returns of each snapshot [snapshots, episodes] on the episodes from a seed, played here one after another."""

    def play(first_seed, episodes=4):
        player = Player("CartPole-v1", episodes)
        seeds = range(first_seed, first_seed + episodes)
        returns = [player.play(load_policy(tmp_path / s.file), seeds) for s in snapshots]
        player.close()
        return np.array(returns)

    return play


def of_threshold(tiny, evaluated):
    return catalogue.load(str(tiny(training=1.0, evaluated=evaluated)))


def test_processes_find_what_one_player_finds_and_leave_nothing(tiny, tmp_path, snapshots, alone):
    shares = []
    workload = of_threshold(tiny, 501.0)
    found = list(evaluate(tmp_path, workload, snapshots, shares.append))
    assert [(e.steps, e.version, e.purpose) for e in found] == [(s.steps, s.version, "curve") for s in snapshots]
    assert np.array_equal([e.returns for e in found], alone(workload.evaluation.seed))
    assert len({tuple(e.returns) for e in found}) > 1, "policies that all play alike would be in order in any order"
    assert shares == pytest.approx([(i + 1) / SNAPSHOTS for i in range(SNAPSHOTS)])
    assert not judges()


@pytest.mark.long(why="whole sessions of real processes")
def test_who_may_stop_plays_not_far_beyond_the_crossing_which_is_the_same_one(tiny, tmp_path, snapshots, alone):
    workload = of_threshold(tiny, 1.0)
    curve = alone(workload.evaluation.seed).mean(axis=1)
    # Of two snapshots each, as the workload says.
    reached = float(np.mean(curve[1:3]))
    workload = msgspec.structs.replace(workload, thresholds=msgspec.structs.replace(workload.thresholds, evaluated=reached))
    assert workload.evaluation.averaged == 2
    at = crossing(curve, reached, 2)
    assert at is not None
    whole, short = (
        list(evaluate(tmp_path, workload, snapshots, lambda share: None, stop_at_goal=stop_at_goal))
        for stop_at_goal in (False, True)
    )
    assert len(whole) == SNAPSHOTS
    assert at + 1 <= len(short) < SNAPSHOTS
    assert [e.returns for e in short] == [e.returns for e in whole[: len(short)]]
    # Where there is no crossing, all are played.
    never = of_threshold(tiny, 501.0)
    assert len(list(evaluate(tmp_path, never, snapshots, lambda share: None, stop_at_goal=True))) == SNAPSHOTS


def test_a_snapshot_that_cannot_be_played_is_named_and_no_process_is_left(tiny, tmp_path, snapshots):
    (tmp_path / snapshots[5].file).write_bytes(b"no policy")
    with pytest.raises(ConfigError, match=snapshots[5].file):
        list(evaluate(tmp_path, of_threshold(tiny, 501.0), snapshots, lambda share: None))
    assert not judges()


def test_who_stops_listening_leaves_no_process(tiny, tmp_path, snapshots):
    playing = evaluate(tmp_path, of_threshold(tiny, 501.0), snapshots, lambda share: None)
    next(playing)
    assert judges()
    playing.close()
    assert not judges()


def test_a_run_that_left_no_snapshot_has_no_evaluation(tiny, tmp_path):
    assert list(evaluate(tmp_path, of_threshold(tiny, 501.0), [], lambda share: None)) == []


KILLED = """
import sys
from pathlib import Path
import msgspec
from baselines.workload import Workload
from suites.session.evaluator import evaluate
from programs.cli import ConfigError
from suites.records.events import Snapshot

workload = msgspec.json.decode(sys.argv[1], type=Workload)
snapshots = [Snapshot(0, 100 * i, i, f"{i}.safetensors") for i in range(9)]
for evaluation in evaluate(Path(sys.argv[2]), workload, snapshots, lambda share: None):
    print(evaluation.steps, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.timeout(60)
def test_judges_end_with_a_parent_that_is_killed(tiny, tmp_path, snapshots):
    workload = msgspec.json.encode(of_threshold(tiny, 501.0)).decode()
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", KILLED, workload, str(tmp_path)], stdin=pipe, stdout=pipe) as parent:
        assert parent.stdout.readline() == b"0\n"
        # All of them, because one that still starts may leave a semaphore behind.
        judges = min(len(os.sched_getaffinity(0)), math.ceil(SNAPSHOTS / WORTH_A_JUDGE))
        while len(found := playing_below(psutil.Process(parent.pid))) < judges:
            time.sleep(0.01)
        parent.kill()
        gone, alive = psutil.wait_procs(found, timeout=20)
        assert not alive
    assert len(gone) == len(found)


def test_a_judge_that_is_killed_ends_the_evaluation(tiny, tmp_path, snapshots):
    playing = evaluate(tmp_path, of_threshold(tiny, 501.0), snapshots, lambda share: None)
    next(playing)
    judges()[0].kill()
    with pytest.raises(BrokenProcessPool):
        list(playing)
    assert not judges()
