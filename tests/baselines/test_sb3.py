"""Stable-Baselines3 trains the workload's network with the workload's numbers, and tells all of it."""

import msgspec
import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed (the extra sb3)")

import torch
from stable_baselines3.common.vec_env import DummyVecEnv
from told import Memory, changed

from baselines import system
from baselines.sb3 import translate, weights
from programs.cli import ConfigError
from suites.session import catalogue
from tianji.algorithms import dqn_torch, ppo_torch
from tianji.algorithms.dqn import Regression, epsilon
from tianji.algorithms.networks import ActorCritic, NatureActorCritic, NatureQ, QNetwork
from tianji.algorithms.networks_torch import infer
from tianji.algorithms.ppo import PPO, Rollouts
from tianji.environments.making import describe

PONG = "pong42-ppo-rate"
NETWORKS = [ActorCritic(4, (64, 64), 2), QNetwork(4, (256, 256), 2)]


@pytest.fixture
def prepared(monkeypatch):
    """Systems that are ready to train, stopped when the test ends."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    threads, started = torch.get_num_threads(), []

    def start(workload, seed=5, options=None):
        task = system.Task("sb3", workload, seed, (0,), options=options or {})
        under_test, memory = system.get("sb3"), Memory()
        started.append(under_test)
        under_test.prepare(task, memory)
        return under_test, task, memory

    yield start
    for under_test in started:
        under_test.stop()
    torch.set_num_threads(threads)


def test_its_options_choose_the_vectoriser_and_threads(prepared, monkeypatch):
    class Apart(DummyVecEnv):
        """Stands for processes of their own."""

    monkeypatch.setattr("stable_baselines3.common.vec_env.SubprocVecEnv", Apart)
    usual, _, _ = prepared(catalogue.load("cartpole-ppo-zoo"))
    assert torch.get_num_threads() == 1
    chosen, _, _ = prepared(catalogue.load("cartpole-ppo-zoo"), options={"vectoriser": "subproc", "torch_threads": 2})
    assert torch.get_num_threads() == 2
    assert [type(one._environments) for one in (usual, chosen)] == [DummyVecEnv, Apart]


def test_its_forms_are_its_vectorisers_and_numbers_of_threads():
    task = system.Task("", catalogue.load("cartpole-ppo-zoo"), 0, (0, 1))
    for name, vectoriser, threads in (
        ("sb3", "DummyVecEnv", 1),
        ("sb3-threads", "DummyVecEnv", 2),
        ("sb3-subproc", "SubprocVecEnv", 1),
        ("sb3-subproc-threads", "SubprocVecEnv", 2),
    ):
        under_test = system.get(name)
        settings = under_test.settings(task)
        assert (settings["vec_env_cls"], settings["torch_threads"]) == (vectoriser, threads)
        # A task's own option stands above the form's, and tuning begins with the form.
        assert under_test.settings(msgspec.structs.replace(task, options={"torch_threads": 1}))["torch_threads"] == 1
        first = under_test.space(task).first
        assert under_test.settings(under_test.tuned(task, first[0])) == settings
        assert len(first) == (4 if name == "sb3-subproc-threads" else 3)


def test_its_updates_are_cast_where_that_is_asked_for(prepared, monkeypatch):
    seen = []
    for options in ({}, {"precision": "bf16"}):
        under_test, task, memory = prepared(changed("cartpole-ppo-zoo", budget_steps=256), options=options)
        evaluate = under_test._model.policy.evaluate_actions

        def look(*given, evaluate=evaluate):
            seen.append((torch.is_autocast_enabled("cpu"), evaluate(*given)[0].dtype))
            return evaluate(*given)

        monkeypatch.setattr(under_test._model.policy, "evaluate_actions", look)
        under_test.train(task, memory)
        assert np.isfinite(memory.snapshots[-1][3]).all()
    assert set(seen) == {(False, torch.float32), (True, torch.bfloat16)}


@pytest.mark.parametrize("kind", [NatureActorCritic, NatureQ])
def test_convolutions_survive_the_way_there_and_back(kind):
    network = kind((4, 42, 42), (512,), 6)
    flat = network.initialise(3)
    assert np.array_equal(weights.from_sb3(network, weights.to_sb3(network, flat)), flat)


def test_on_pictures_it_starts_as_the_network_that_every_system_starts_as(prepared):
    pytest.importorskip("ale_py")
    under_test, _, _ = prepared(changed(PONG, environments=2), seed=5)
    network, x = under_test._network, np.random.default_rng(0).integers(0, 256, (6, 4, 42, 42), np.uint8)
    policy, blocks = under_test._model.policy, network.views(network.initialise(5))
    assert set(weights.to_sb3(network, network.initialise(5))) == set(policy.state_dict())
    assert under_test._model.observation_space.shape == (4, 42, 42)
    with torch.no_grad():
        found = policy.get_distribution(torch.tensor(x)).distribution.logits.numpy()
        values = policy.predict_values(torch.tensor(x)).numpy()[:, 0]
    logits, expected = infer(network, blocks, x)
    np.testing.assert_allclose(found, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), atol=1e-5)
    np.testing.assert_allclose(values, expected, atol=1e-5)


def test_on_pictures_it_does_and_tells_what_the_workload_says(prepared):
    pytest.importorskip("ale_py")
    w = changed(PONG, environments=2, budget_steps=96, ppo={"rollout_steps": 16, "minibatch_size": 16, "epochs": 2})
    under_test, task, memory = prepared(w)
    under_test.train(task, memory)
    assert memory.counters == {"learner_steps": 96.0, "learner_optimizer_steps": 12.0}
    assert np.array_equal(memory.snapshots[0][3], under_test._network.initialise(5))
    assert not np.array_equal(memory.snapshots[0][3], memory.snapshots[-1][3])
    frames = under_test._model.rollout_buffer.observations
    assert frames.dtype == np.uint8
    assert frames.max() > 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, None),
        ({"network": {"hidden": [512, 16]}}, "its convolutional network has one dense layer"),
        ({"network": {"pixel_scale": 10.0}}, "bytes divided by 255"),
        ({"device": "cuda"}, "updates on a GPU are not translated to it"),
        ({"ppo": {"value_clip": 0.1}}, "a clipped value error is not translated to it"),
    ],
)
def test_pictures_that_it_cannot_be_given_are_refused_in_words(changes, says):
    found = system.get("sb3").unable(changed(PONG, **changes))
    assert found is None if says is None else says in found
    assert "nature-shared are not translated to it" in system.get("sbx").unable(changed(PONG, **changes))


def test_what_it_is_given_for_pictures_is_told():
    task = system.Task("sb3", catalogue.load(PONG), 0, (0, 1))
    assert system.get("sb3").settings(task)["policy"] == "CnnPolicy"
    assert translate.STACKED in system.get("sb3").deviations(task)
    assert translate.STACKED not in system.get("sb3").deviations(
        system.Task("sb3", catalogue.load("cartpole-ppo-zoo"), 0, (0,))
    )


@pytest.mark.parametrize("name", ["cartpole-ppo-zoo", "cartpole-dqn-zoo"])
def test_a_workload_is_translated_to_plain_data(name):
    found, task = system.get("sb3"), system.Task("sb3", catalogue.load(name), 0, (0, 1))
    assert found.available() is None
    assert msgspec.json.decode(msgspec.json.encode(found.settings(task))) == found.settings(task)
    assert found.deviations(task)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.name)
def test_weights_survive_the_way_there_and_back(network):
    flat = network.initialise(3)
    assert np.array_equal(weights.from_sb3(network, weights.to_sb3(network, flat)), flat)


def test_ppo_starts_as_the_network_that_every_system_starts_as(prepared):
    network, x = NETWORKS[0], np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    under_test, _, _ = prepared(catalogue.load("cartpole-ppo-zoo"), seed=5)
    policy, blocks = under_test._model.policy, network.views(network.initialise(5))
    assert set(weights.to_sb3(network, network.initialise(5))) == set(policy.state_dict())
    with torch.no_grad():
        log_probabilities = policy.get_distribution(torch.tensor(x)).distribution.logits.numpy()
        values = policy.predict_values(torch.tensor(x)).numpy()[:, 0]
    logits = network.scores(blocks, x)
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(log_probabilities, expected, atol=1e-6)
    np.testing.assert_allclose(values, network.values(blocks, x), atol=1e-6)


def test_dqn_and_its_target_start_as_the_network_that_every_system_starts_as(prepared):
    network, x = NETWORKS[1], np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    under_test, _, _ = prepared(catalogue.load("cartpole-dqn-zoo"), seed=5)
    expected = network.scores(network.views(network.initialise(5)), x)
    with torch.no_grad():
        for theirs in (under_test._model.q_net, under_test._model.q_net_target):
            np.testing.assert_allclose(theirs(torch.tensor(x)).numpy(), expected, atol=1e-6)


@pytest.mark.parametrize(("budget", "horizon"), [(100_000, 100_000), (100_000, 50_000), (30_000, 100_000)])
def test_the_learning_rate_is_the_workloads_in_every_round(budget, horizon):
    w = changed("cartpole-ppo-zoo", budget_steps=budget, horizon_steps=horizon)
    ours = PPO(None, describe(w.env), w.for_ppo, w.horizon_steps, seed=0)
    total = translate.total_steps(w)
    theirs = translate.linear_from_round_start(w.for_ppo.learning_rate, w.round_steps, total, w.horizon_steps)
    assert theirs(1.0) == w.for_ppo.learning_rate
    for before in range(0, total, w.round_steps):
        after = before + w.round_steps
        assert theirs(1.0 - float(after) / float(total)) == ours.learning_rate(before)


def test_a_ppo_run_does_and_tells_exactly_what_the_workload_says(prepared):
    w = changed("cartpole-ppo-zoo", budget_steps=3000, snapshot_every_steps=700, ppo={"minibatch_size": 128, "epochs": 3})
    under_test, task, memory = prepared(w)
    under_test.train(task, memory)
    # 11 whole rounds of 256 steps; a snapshot in each that passes a multiple of 700, and one at the end.
    assert [steps for _, steps, _, _ in memory.snapshots] == [0, 768, 1536, 2304, 2816]
    assert [version for _, _, version, _ in memory.snapshots] == [0, 18, 36, 54, 66]
    assert memory.counters == {"learner_steps": 2816.0, "learner_optimizer_steps": 66.0}
    assert np.array_equal(memory.snapshots[0][3], NETWORKS[0].initialise(5))
    assert not np.array_equal(memory.snapshots[1][3], memory.snapshots[2][3])
    ours = PPO(None, describe(w.env), w.for_ppo, w.horizon_steps, seed=0)
    (group,) = under_test._model.policy.optimizer.param_groups
    assert group["lr"] == ours.learning_rate(2816 - 256)
    assert (group["eps"], under_test._model.clip_range(0.5)) == (1e-5, 0.2)

    ((start,),) = memory.first_steps
    stamps = [at for at, *_ in memory.snapshots]
    assert start <= stamps[0] < stamps[1] < stamps[2]
    assert len(memory.episodes) > 20
    assert all(value == length for _, value, length, _ in memory.episodes)
    # Episodes are reported when they end, so their steps are at most all steps, and nearly all of them.
    ended = sum(length for _, _, length, _ in memory.episodes)
    assert memory.episodes[-1][3] - 8 * 500 < ended <= memory.episodes[-1][3] <= 2816
    assert [steps for *_, steps in memory.episodes] == sorted(steps for *_, steps in memory.episodes)
    ((role, busy, wait, cpu_s, peak),) = memory.processes
    assert (role, wait) == ("driver", {})
    assert 0 < busy["sample"] + busy["update"] < (stamps[-1] - start) / 1e9
    assert min(busy["sample"], busy["update"], cpu_s) > 0
    assert peak > 2**26


def test_a_dqn_run_does_and_tells_exactly_what_the_workload_says(prepared):
    w = changed("cartpole-dqn-zoo", budget_steps=2000, dqn={"updates": 16, "learning_starts": 512, "epsilon_steps": 1500})
    under_test, task, memory = prepared(w)
    under_test.train(task, memory)
    # 7 whole rounds of 256 steps; the first to train is the second, after which there are 512 steps.
    assert [steps for _, steps, _, _ in memory.snapshots] == [256 * i for i in range(8)]
    assert [version for _, _, version, _ in memory.snapshots] == [0, 0, 16, 32, 48, 64, 80, 96]
    assert memory.counters == {"learner_steps": 1792.0, "learner_optimizer_steps": 96.0}
    assert np.array_equal(memory.snapshots[1][3], NETWORKS[1].initialise(5))
    assert sum(length for _, _, length, _ in memory.episodes) == memory.episodes[-1][3]
    model = under_test._model
    assert model.exploration_rate == pytest.approx(epsilon(w.for_dqn, 1792)) == 0.04
    for steps in (1, 700, 1499):
        assert model.exploration_schedule(1 - steps / 1792) == pytest.approx(epsilon(w.for_dqn, steps))
    # The last copy was made while sampling, before the last round of updates: the target is the policy before it.
    state = model.policy.state_dict()
    target = {name.replace("q_net_target.", "q_net.", 1): value for name, value in state.items() if "target" in name}
    assert np.array_equal(weights.from_sb3(NETWORKS[1], target), memory.snapshots[-2][3])


def test_a_ppo_round_on_its_rollout_gives_the_weights_that_our_loss_gives(prepared, monkeypatch):
    w, network = changed("cartpole-ppo-zoo", budget_steps=256), NETWORKS[0]
    under_test, task, memory = prepared(w)
    buffer, kept = under_test._model.rollout_buffer, {}
    get = buffer.get

    def keep(batch_size):
        if not kept:
            # Before `get` lays the buffer out anew, in place.
            names = ("observations", "actions", "log_probs", "advantages", "returns")
            kept.update({name: getattr(buffer, name).reshape(256, -1).copy() for name in names})
        return get(batch_size)

    monkeypatch.setattr(buffer, "get", keep)
    under_test.train(task, memory)
    a = kept["advantages"][:, 0]
    batch = Rollouts(
        kept["observations"],
        kept["actions"][:, 0].astype(np.int64),
        kept["log_probs"][:, 0],
        # The one deviation: N - 1.
        (a - a.mean()) / (a.std(ddof=1) + np.float32(1e-8)),
        kept["returns"][:, 0],
    )
    ours = ppo_torch.TorchUpdater(network, w.for_ppo, network.initialise(5))
    for _ in range(w.for_ppo.epochs):
        ours.step(batch, w.for_ppo.learning_rate)
    assert np.abs(ours.weights() - network.initialise(5)).max() > 0.01
    np.testing.assert_allclose(memory.snapshots[-1][3], ours.weights(), atol=2e-6)


def test_a_dqn_round_on_its_draws_gives_the_weights_that_our_loss_gives(prepared, monkeypatch):
    w, network = changed("cartpole-dqn-zoo", budget_steps=256, dqn={"updates": 16, "learning_starts": 256}), NETWORKS[1]
    under_test, task, memory = prepared(w)
    buffer, drawn = under_test._model.replay_buffer, []
    sample = buffer.sample

    def keep(*arguments, **named):
        drawn.append(sample(*arguments, **named))
        return drawn[-1]

    monkeypatch.setattr(buffer, "sample", keep)
    under_test.train(task, memory)
    assert len(drawn) == 16
    ours = dqn_torch.TorchUpdater(network, w.for_dqn, network.initialise(5))
    for draw in drawn:
        best = ours.target_values(draw.next_observations.numpy()).max(axis=1)
        target = draw.rewards.numpy()[:, 0] + (1 - draw.dones.numpy()[:, 0]) * np.float32(w.for_dqn.gamma) * best
        ours.step(Regression(draw.observations.numpy(), draw.actions.numpy()[:, 0], target), w.for_dqn.learning_rate)
    assert np.abs(ours.weights() - network.initialise(5)).max() > 0.01
    np.testing.assert_allclose(memory.snapshots[-1][3], ours.weights(), atol=2e-6)


def test_a_run_ends_after_the_round_in_which_its_seconds_are_spent(prepared):
    under_test, task, memory = prepared(changed("cartpole-ppo-zoo", budget_seconds=1e-9))
    under_test.train(task, memory)
    assert [(steps, version) for _, steps, version, _ in memory.snapshots] == [(0, 0), (256, 20)]
    assert memory.counters == {"learner_steps": 256.0, "learner_optimizer_steps": 20.0}
    assert all(steps <= 256 for *_, steps in memory.episodes)


@pytest.mark.parametrize("name", ["cartpole-ppo-zoo", "cartpole-dqn-zoo"])
def test_a_run_ends_after_the_round_in_which_it_is_let(prepared, monkeypatch, name):
    monkeypatch.setattr(Memory, "may_end", property(lambda memory: len(memory.snapshots) >= 3))
    under_test, task, memory = prepared(changed(name, snapshot_every_steps=512))
    under_test.train(task, memory)
    assert [steps for _, steps, _, _ in memory.snapshots] == [0, 512, 1024]
    assert memory.counters["learner_steps"] == 1024.0


def test_what_cannot_be_matched_is_said_or_refused():
    several = changed("cartpole-dqn-zoo", environments=4, dqn={"huber_delta": 2.0, "target_every_steps": 1000})
    assert len(translate.deviations(several)) == 4
    with pytest.raises(ConfigError, match="multiple of the 3 environments"):
        translate.settings(changed("cartpole-dqn-zoo", environments=3), 0)
    with pytest.raises(ConfigError, match="less than one round"):
        translate.settings(changed("cartpole-ppo-zoo", budget_steps=255), 0)


def test_environments_are_in_one_process_and_draw_nothing(prepared):
    under_test, _, _ = prepared(catalogue.load("cartpole-ppo-zoo"))
    assert type(under_test._environments) is DummyVecEnv
    assert under_test._environments.num_envs == 8
    assert {environment.render_mode for environment in under_test._environments.envs} == {None}
