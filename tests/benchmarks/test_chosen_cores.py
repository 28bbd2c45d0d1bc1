"""Cores chosen beside those by hand: what is tried, what a rate is, and what it refuses."""

import pytest

from benchmarks import chosen_cores
from programs.cli import ConfigError
from tianji import TrainConfig
from tianji.messages import Progress


def test_every_choice_by_hand_has_the_same_environments():
    found = chosen_cores.by_hand(TrainConfig(env="CartPole-v1", actors=2, envs_per_actor=4))
    assert list(found) == ["1 x 8, 1", "1 x 8, 2", "2 x 4, 1", "2 x 4, 2"]
    assert {one.actors * one.envs_per_actor for one in found.values()} == {8}
    assert [one.learner_threads for one in found.values()] == [1, 2, 1, 2]
    assert list(chosen_cores.by_hand(TrainConfig(env="CartPole-v1", algo="dqn"))) == ["1 x 1, 1", "1 x 1, 2"]


def test_a_rate_leaves_out_the_warm_up(monkeypatch):
    def pretended(config, hear):
        assert config.stop_seconds == chosen_cores.WARM_UP_S + 5
        hear(Progress("actor g0.a0", 0, {"steps": 9.0}))
        for second, steps in ((0, 0), (4, 1000), (6, 1600), (8, 2000)):
            hear(Progress("learner g0", second * 10**9, {"steps": float(steps)}))

    monkeypatch.setattr(chosen_cores, "train", pretended)
    assert chosen_cores.rate(TrainConfig(env="CartPole-v1"), 5) == 250.0


def test_a_row_has_the_best_by_hand_and_the_ratio():
    rates = {"PPO": {"chosen": [90.0, 90.0], "1 x 8, 1": [50.0, 200.0], "2 x 4, 1": [80.0, 80.0]}}
    assert chosen_cores.rows(rates)[-1] == "| PPO | 90 | 1 x 8, 1 (100) | 0.90 |"


def test_every_case_can_be_made_and_each_block_runs_all(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(chosen_cores, "rate", lambda config, seconds: ran.append(config) or 1.0)
    assert chosen_cores.main(["--blocks", "2", "--case", "PPO 42", "--case", "CartPole, strict"]) == 0
    assert len(ran) == 2 * 3 * 5
    assert capsys.readouterr().out.count("| 1.00 |") == 3
    for settings in chosen_cores.CASES.values():
        TrainConfig(**settings)


@pytest.mark.parametrize("arguments", [["--blocks", "0"], ["--seconds", "0"], ["--case", "Go"]])
def test_wrong_input_is_one_line(arguments):
    with pytest.raises(ConfigError, match="give at least one block"):
        chosen_cores.main(arguments)
