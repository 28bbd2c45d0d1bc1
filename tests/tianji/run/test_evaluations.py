"""Evaluation beside training, learners' metrics, and the loggers that keep both."""

import csv
import os
import signal
import sys
from itertools import pairwise
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from programs.cli import ConfigError
from tianji import EvaluationConfig, NetworkConfig, PPOConfig, TrainConfig, train
from tianji.__main__ import main
from tianji.algorithms import networks
from tianji.launch.events import Evaluated, Trouble
from tianji.messages import Progress, Snapshot
from tianji.policy import load_policy
from tianji.run.evaluations import Evaluations
from tianji.run.loggers import CSV, LOGGERS
from tianji.run.play import Player
from tianji.run.training import check, settled


def configured(**more):
    usual = {"env": "CartPole-v1", "actors": 1, "envs_per_actor": 4, "stop_steps": 8192, "ppo": PPOConfig(rollout_steps=64)}
    return TrainConfig(**usual | {"evaluation": EvaluationConfig(every_steps=2048, episodes=3)} | more)


@pytest.mark.parametrize("world", ["lockstep", "real"])
def test_snapshots_are_played_beside_training_and_the_best_one_is_kept(tmp_path, world):
    heard = []
    result = train(configured(world=world), heard.append, out=tmp_path / "run")
    found = [message for message in heard if isinstance(message, Evaluated)]
    assert len(found) >= 2
    assert found[-1].steps == result.steps == 8192
    assert [one.version for one in found] == sorted({one.version for one in found})
    assert all(later.steps - earlier.steps >= 1024 for earlier, later in pairwise(found))
    player = Player("CartPole-v1", 3)
    assert player.play(result.policy, range(10_000, 10_003)).tolist() == list(found[-1].returns)
    best = max(found, key=lambda one: np.mean(one.returns))
    policy = load_policy(tmp_path / "run" / "best.safetensors")
    assert player.play(policy, range(10_000, 10_003)).mean() == np.mean(best.returns)
    player.close()


def test_the_best_policy_is_evaluated_by_name(tmp_path, capsys):
    train(configured(world="lockstep", stop_steps=2048), out=tmp_path / "run")
    assert main(["evaluate", str(tmp_path / "run"), "--best", "--episodes", "3", "--seed", "10000"]) == 0
    assert "mean return" in capsys.readouterr().out
    train(configured(world="lockstep", stop_steps=2048, evaluation=EvaluationConfig()), out=tmp_path / "other")
    with pytest.raises(ConfigError, match="there is no best policy; a run keeps one with"):
        main(["evaluate", str(tmp_path / "other"), "--best"])


def snapshot(network, version, steps):
    return Snapshot(version, steps, 0, network.initialise(version).astype("<f4").tobytes())


def test_while_one_is_played_only_the_newest_waits():
    config = configured()
    description = check(config)
    config = settled(config, description)
    network, evaluations = networks.of(config, description), Evaluations(config, description)
    try:
        for version, steps in ((0, 0), (1, 2048), (2, 4096), (3, 6144), (4, 6500)):
            evaluations.offer(snapshot(network, version, steps))
        played = [found.version for _, found in evaluations.last(snapshot(network, 4, 6500))]
        # 4 came too early after 3 to wait in its place, and is played as the last one.
        assert played in ([0, 3, 4], [0, 4])
    finally:
        evaluations.close()


def test_the_last_snapshot_is_not_played_again_where_its_returns_are_known():
    config = configured()
    description = check(config)
    config = settled(config, description)
    network, evaluations = networks.of(config, description), Evaluations(config, description)
    try:
        for version, steps in ((0, 0), (1, 2048)):
            evaluations.offer(snapshot(network, version, steps))
        # Asked while the run goes on: the answers are taken before its end asks for the last one.
        assert [found.version for _, found in evaluations.finished(60.0)] == [0, 1]
        assert evaluations.last(snapshot(network, 1, 2048)) == []
        # After a restart a number comes again, with other weights.
        other = Snapshot(1, 2048, 0, network.initialise(9).astype("<f4").tobytes())
        assert [found.version for _, found in evaluations.last(other)] == [1]
    finally:
        evaluations.close()


def test_a_process_that_ends_is_told_and_the_run_goes_on(monkeypatch):
    heard, offered = [], []
    offer = Evaluations.offer

    def killing(self, snapshot):
        if not offered:
            self._process.kill()
            self._process.wait()
        offered.append(snapshot)
        offer(self, snapshot)

    monkeypatch.setattr(Evaluations, "offer", killing)
    result = train(configured(world="lockstep"), heard.append)
    assert result.outcome == "steps"
    (trouble,) = [message for message in heard if isinstance(message, Trouble)]
    assert trouble.text == "the process that evaluates beside training has ended; its error stands above"


@pytest.mark.long(why="it trains with NumPy and with torch")
@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({}, {"policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "explained_variance"}),
        ({"algo": "impala"}, {"policy_loss", "value_loss", "entropy", "approx_kl", "explained_variance"}),
        ({"algo": "dqn"}, {"loss", "mean_value"}),
    ],
)
def test_learners_say_how_training_goes(monkeypatch, more, names):
    monkeypatch.setattr("tianji.algorithms.meter.EVERY_S", 0.0)
    monkeypatch.setattr("tianji.worlds.host.PROGRESS_NS", 0)
    heard = []
    train(configured(world="lockstep", evaluation=EvaluationConfig(), **more), heard.append)
    told = [m.counters for m in heard if isinstance(m, Progress) and m.role.startswith("learner")][-1]
    assert names | {"gradient_norm", "learning_rate"} <= set(told)
    assert all(np.isfinite(value) for value in told.values())
    assert told["gradient_norm"] > 0


def test_a_curve_that_begins_later_gets_a_column(tmp_path):
    logger = CSV(tmp_path, {})
    logger.log(10, {"a": 1.0})
    logger.log(20, {"a": 2.0, "b": 5.0})
    logger.close()
    logger = CSV(tmp_path, {})
    logger.log(30, {"b": 6.0, "c": 7.0})
    logger.close()
    with (tmp_path / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"steps": "10", "a": "1.0", "b": "", "c": ""},
        {"steps": "20", "a": "2.0", "b": "5.0", "c": ""},
        {"steps": "30", "a": "", "b": "6.0", "c": "7.0"},
    ]


@pytest.mark.long(why="whole runs of real processes")
def test_curves_of_a_run_are_kept_as_a_table(tmp_path, capsys):
    folder = tmp_path / "run"
    asked = ["train", "--env", "CartPole-v1", "--stop-steps", "60000", "--quiet", "--out", str(folder)]
    assert (
        main([*asked, "--set", "loggers=['csv']", "--set", "evaluation.every_steps=10000", "--set", "evaluation.episodes=2"])
        == 0
    )
    with (folder / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert {"steps", "return/mean_of_100", "learner/approx_kl", "throughput/steps_per_s"} <= set(rows[-1])
    assert not list(folder.glob("events.out*"))


def test_weights_and_biases_gets_every_point_and_is_told_the_end(tmp_path, monkeypatch):
    """Its package is stood in for by what it documents: `init` gives a run with `log` and `finish`."""
    told = []
    run = SimpleNamespace(log=lambda values, step: told.append((step, values)), finish=lambda: told.append("finished"))
    package = ModuleType("wandb")
    package.init = lambda **arguments: told.append(arguments) or run
    monkeypatch.setitem(sys.modules, "wandb", package)
    logger = LOGGERS.get("wandb")(tmp_path / "first", {"algo": "ppo"})
    logger.log(10, {"learner/loss": 0.5})
    logger.log(20, {"learner/loss": 0.25, "learner/entropy": 0.1})
    logger.close()
    begun = {"dir": str(tmp_path / "first"), "config": {"algo": "ppo"}, "name": "first"}
    assert told == [begun, (10, {"learner/loss": 0.5}), (20, {"learner/loss": 0.25, "learner/entropy": 0.1}), "finished"]


def test_weights_and_biases_is_missed_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"^loggers: wandb is not installed; pip install wandb brings it$"):
        LOGGERS.get("wandb")(tmp_path, {})


def test_loggers_of_other_packages_are_asked_for_by_name():
    assert {"csv", "tensorboard", "wandb"} <= set(LOGGERS.names())
    with pytest.raises(ConfigError, match="did you mean csv"):
        LOGGERS.get("cvs")


def test_a_process_that_reads_nothing_does_not_hold_up_the_run():
    config = configured(network=NetworkConfig(hidden=(512, 512)))
    description = check(config)
    config = settled(config, description)
    network, evaluations = networks.of(config, description), Evaluations(config, description)
    try:
        os.kill(evaluations._process.pid, signal.SIGSTOP)
        # More than a pipe holds: this would wait for ever.
        evaluations.offer(snapshot(network, 0, 0))
        assert evaluations.finished() == []
        os.kill(evaluations._process.pid, signal.SIGCONT)
        assert [found.version for _, found in evaluations.last(snapshot(network, 0, 0))] == [0]
    finally:
        evaluations.close()
