"""Running statistics: merged exactly, published once a round, the same for actors, learners, groups and players."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs.cli import ConfigError
from tianji import TrainConfig, train
from tianji.algorithms.normalisation import EPSILON, Sizes, Statistics, deviations, merge, merged
from tianji.config import NormaliseConfig
from tianji.environments.description import EnvDescription
from tianji.environments.normalised import tables_of
from tianji.policy import load_policy
from tianji.run.play import Player
from tianji.run_folder import RunFolder, read_state, state_path
from tianji.settings import convert

BOTH = NormaliseConfig(observations=True, rewards=True)
SEEN = EnvDescription("x", (3,), "<f4", 0, 2, normalised=True)


def table_of(rows):
    """Count, mean and sum of squares of rows [N, F], in one pass over all of them."""
    return np.concatenate([[len(rows)], rows.mean(0), ((rows - rows.mean(0)) ** 2).sum(0)])


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 30), min_size=1, max_size=8), st.sampled_from([0.0, 1e3, 1e6]))
def test_merged_tables_are_those_of_all_rows_together(seed, counts, offset):
    rng = np.random.default_rng(seed)
    parts = [offset + rng.normal(size=(count, 3)) * rng.uniform(0.1, 10, 3) for count in counts]
    whole = np.zeros(7)
    for part in parts:
        merge(whole, table_of(part))
    rows = np.concatenate(parts)
    np.testing.assert_allclose(whole, table_of(rows), rtol=1e-6, atol=1e-9)
    if len(rows) > 1:
        np.testing.assert_allclose(deviations(whole), np.sqrt(rows.var(0) + EPSILON), rtol=1e-6)


def test_tables_of_a_fragment_are_one_for_each_environment():
    rows = np.random.default_rng(0).normal(size=(20, 4, 3)).astype(np.float32)
    for b, table in enumerate(tables_of(rows)):
        np.testing.assert_allclose(table, table_of(rows[:, b].astype(np.float64)), rtol=1e-12)


def test_groups_together_know_what_all_have_counted_and_nothing_twice():
    rng, sizes = np.random.default_rng(0), Sizes(BOTH, SEEN)
    groups = [Statistics(BOTH, sizes) for _ in range(3)]
    lived = [[] for _ in groups]

    def work(g):
        rows, returns = rng.normal(g, 1 + g, (16, 1, 3)), rng.normal(size=(16, 1, 1))
        lived[g].append((rows[:, 0], returns[:, 0]))
        record = np.concatenate([tables_of(rows), tables_of(returns)], axis=1)
        groups[g].taken([{"statistics": record, "reward": np.zeros((16, 1), np.float32)}])

    for _ in range(5):
        for g in range(3):
            work(g)
        total = merged([group.push().copy() for group in groups], sizes)
        # Two of them have gone on before the mean arrives.
        work(0)
        work(2)
        for g, group in enumerate(groups):
            group.adopt(total)
            seen = [
                rows
                for other, parts in enumerate(lived)
                for rows, _ in (parts[:-1] if other in (0, 2) and other != g else parts)
            ]
            np.testing.assert_allclose(group.whole[:7], table_of(np.concatenate(seen)), rtol=1e-9)


def configured(**more):
    data = {
        "env": "Pendulum-v1", "world": "lockstep", "actors": 2, "envs_per_actor": 4, "stop_steps": 8 * 32 * 6,
        "ppo": {"rollout_steps": 32, "minibatch_size": 64, "epochs": 2}, "normalise": {"observations": True, "rewards": True},
    }  # fmt: skip
    return convert(data | more, TrainConfig, "test")


def test_the_policy_of_a_round_is_trained_under_the_statistics_under_which_it_acted(monkeypatch):
    """So that the ratio of the first minibatch is 1, in every round, however far the statistics have moved."""
    from tianji.algorithms import ppo_numpy
    from tianji.algorithms.distributions import from_scores

    first, rounds = [], []
    step = ppo_numpy.NumpyUpdater.step

    def seen(self, batch, rate):
        if not len(first) % 8:
            scores, _ = self.both(batch.features)
            ratio = np.exp(from_scores(self.network.actions, scores).log_probability(batch.action) - batch.log_probability)
            rounds.append(np.abs(ratio - 1).max())
        first.append(rate)
        step(self, batch, rate)

    monkeypatch.setattr(ppo_numpy.NumpyUpdater, "step", seen)
    result = train(configured())
    assert len(rounds) == 6
    assert max(rounds) < 1e-4
    mean = result.policy.network.views(result.weights)["normaliser.mean"]
    assert np.abs(mean).max() > 0


def test_published_statistics_are_those_of_everything_that_was_acted_on(monkeypatch):
    from tianji.environments.normalised import Normalised

    acted, returns = [], []
    write = Normalised.write

    def noted(self, out, filled):
        acted.append(self._acted_on[:filled].copy())
        returns.append(self._returns[:filled].copy())
        write(self, out, filled)

    monkeypatch.setattr(Normalised, "write", noted)
    result = train(configured())
    rows = np.concatenate([part.reshape(-1, 3) for part in acted]).astype(np.float64)
    assert len(rows) == 8 * 32 * 6
    blocks = result.policy.network.views(result.weights)
    np.testing.assert_allclose(blocks["normaliser.mean"], rows.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(blocks["normaliser.scale"], 1 / np.sqrt(rows.var(0) + EPSILON), rtol=1e-4)
    # Pendulum's rewards are never above zero, and neither are returns.
    assert (np.concatenate(returns) <= 0).all()


def test_returns_that_are_reported_are_not_normalised():
    assert train(configured(stop_steps=8 * 32 * 7)).mean_return < -500


@pytest.mark.parametrize("more", [{}, {"groups": 2, "stop_steps": 2 * 8 * 32 * 4}])
def test_a_resumed_run_goes_on_with_its_statistics(tmp_path, more):
    config = configured(checkpoint_seconds=0.001, **more)
    folder = tmp_path / "run"
    train(config, out=folder)
    stored = [read_state(state_path(RunFolder(folder).state, group)) for group in range(config.groups)]
    for state in stored:
        whole, own, _ = state.arrays["statistics"]
        assert own[0] > 0
        assert whole[0] >= own[0]
    longer = convert({**msgspec.to_builtins(config), "stop_steps": 2 * config.stop_steps}, TrainConfig, "test")
    train(longer, out=folder, resume=True)
    for group, state in enumerate(stored):
        again = read_state(state_path(RunFolder(folder).state, group)).arrays["statistics"]
        assert again[1][0] == pytest.approx(2 * state.arrays["statistics"][1][0])


def test_a_stored_policy_plays_under_its_statistics(tmp_path):
    result = train(configured(), out=tmp_path / "run")
    policy = load_policy(RunFolder(tmp_path / "run").policy)
    assert policy.network.normalised == 3
    player = Player("Pendulum-v1", 2)
    again = player.play(policy, [1, 2])
    np.testing.assert_array_equal(again, player.play(result.policy, [1, 2]))
    player.close()
    raw = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    blocks = policy.network.views(policy.weights)
    normalised = np.clip((raw - blocks["normaliser.mean"]) * blocks["normaliser.scale"], -10, 10)
    np.testing.assert_allclose(policy.greedy(raw), policy.network.scores(blocks, normalised)[:, :1], rtol=1e-6)


@pytest.mark.parametrize("updater", ["numpy", "torch"])
def test_statistics_are_no_parameters_that_training_moves(updater):
    result = train(configured(updater=updater, normalise={"observations": True, "clip_observations": 7.0}))
    assert result.policy.network.views(result.weights)["normaliser.clip"] == 7


def test_rewards_alone_and_other_algorithms():
    train(configured(normalise={"rewards": True}))
    train(configured(algo="impala", impala={"rollout_steps": 32}))
    with pytest.raises(ConfigError, match="normalise is for algorithms that train on each chunk in one round, not dqn"):
        configured(env="CartPole-v1", algo="dqn")


def test_pictures_are_not_normalised():
    with pytest.raises(ConfigError, match=r"normalise.observations is for vectors and perceptrons"):
        train(configured(env="stable_baselines3.common.envs:FakeImageEnv"))


def test_the_number_of_actors_does_not_change_what_is_counted():
    tables = []
    for actors in (1, 2):
        weights = train(configured(actors=actors, envs_per_actor=8 // actors)).weights
        tables.append(weights[-7:-1])
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-5)


def test_stacks_are_normalised_frame_by_frame():
    result = train(configured(environment={"stack": 2}))
    assert result.describe.features == 6
    assert result.policy.network.normalised == 3
