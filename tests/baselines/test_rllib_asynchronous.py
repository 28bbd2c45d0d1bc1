"""RLlib's APPO and IMPALA: what they are told, and one run of each on this host."""

import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest
import torch
from elsewhere import ROOT
from told import changed

from baselines import system
from baselines.rllib import weights
from baselines.system import Task
from suites.records import bundle
from suites.records.events import Counter, Episode, FirstStep, Progress, Snapshot
from suites.session import catalogue
from tianji.algorithms.networks import ActorCritic

pytestmark = pytest.mark.filterwarnings("ignore")

WORKLOADS = {"rllib-appo": "cartpole-ppo-zoo", "rllib-impala": "cartpole-impala"}
NETWORK = ActorCritic(4, (64, 64), 2)


def task_of(name, cores=(0, 1), **changes):
    return Task(name, changed(WORKLOADS[name], **changes), 5, cores)


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize(("cores", "runners"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 4), (9, 8), (32, 8)])
def test_env_runners_have_the_cores_that_the_learner_leaves(name, cores, runners):
    told = system.get(name).settings(task_of(name, tuple(range(cores))))
    assert (told["num_env_runners"], told["num_envs_per_env_runner"], told["num_learners"]) == (runners, 8 // runners, 0)
    assert msgspec.json.decode(msgspec.json.encode(told)) == told


def test_appo_is_told_the_numbers_of_ppo():
    told = system.get("rllib-appo").settings(task_of("rllib-appo"))
    training = told["training"]
    assert (told["rollout_fragment_length"], training["train_batch_size_per_learner"], training["num_epochs"]) == (32, 256, 20)
    assert (training["minibatch_size"], training["clip_param"], training["gamma"]) == (None, 0.2, 0.98)
    # Half of the squared error, where the workload has the whole of it.
    assert (training["vf_loss_coeff"], training["entropy_coeff"], training["grad_clip"]) == (1.0, 0.0, 0.5)
    assert training["lr"] == [[0, 1e-3], [100_000, 0.0]]
    smaller = system.get("rllib-appo").settings(task_of("rllib-appo", ppo={"minibatch_size": 64}))
    assert smaller["training"]["minibatch_size"] == 64
    deviations = " ".join(system.get("rllib-appo").deviations(task_of("rllib-appo")))
    assert all(words in deviations for words in ("V-trace", "old policy", "not normalised"))


def test_impala_is_told_the_numbers_of_impala():
    task = task_of("rllib-impala")
    told = system.get("rllib-impala").settings(task)
    training = told["training"]
    assert (told["rollout_fragment_length"], training["train_batch_size_per_learner"], training["lr"]) == (20, 160, 2e-3)
    assert (training["vf_loss_coeff"], training["entropy_coeff"], training["grad_clip"]) == (1.0, 0.01, 40.0)
    assert (training["vtrace_clip_rho_threshold"], training["vtrace_clip_pg_rho_threshold"]) == (1.0, 1.0)
    assert not any("lambda" in line for line in system.get("rllib-impala").deviations(task))
    other = task_of("rllib-impala", impala={"vtrace_lambda": 0.9})
    assert any("lambda are 1, not 1.0 and 0.9" in line for line in system.get("rllib-impala").deviations(other))


def test_each_refuses_the_algorithms_of_others():
    appo, impala, rllib = (system.get(name) for name in ("rllib-appo", "rllib-impala", "rllib"))
    of_ppo, of_dqn, of_impala = (catalogue.load(name) for name in ("cartpole-ppo-zoo", "cartpole-dqn-zoo", "cartpole-impala"))
    assert [one.unable(of_ppo) is None for one in (appo, impala, rllib)] == [True, False, True]
    assert [one.unable(of_dqn) is None for one in (appo, impala, rllib)] == [False, False, True]
    assert [one.unable(of_impala) is None for one in (appo, impala, rllib)] == [False, True, False]
    assert "whole rollouts" in appo.unable(changed("cartpole-ppo-zoo", ppo={"minibatch_size": 100}))
    assert "one host" in impala.unable_on(of_impala, 2)
    assert "dueling" not in (impala.unable(of_impala) or "")


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_learner_starts_as_the_network_that_every_system_starts_as(name):
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    learner = system.get(name)._config(task_of(name)).build_learner(env=env)
    env.close()
    try:
        module = learner.module["default_policy"].unwrapped()
        flat, x = NETWORK.initialise(5), np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
        module.set_state(weights.to_rllib(NETWORK, flat, module.get_state()))
        assert np.array_equal(weights.from_rllib(NETWORK, module.get_state()), flat)
        blocks = NETWORK.views(flat)
        with torch.no_grad():
            batch = {"obs": torch.tensor(x)}
            logits = [module.forward_train(batch)["action_dist_inputs"].numpy()]
            if name == "rllib-appo":
                # Its old policy begins as the policy.
                (old,) = module.forward_target(batch).values()
                logits.append(old.numpy())
            values = module.compute_values(batch).numpy()
        for found in logits:
            np.testing.assert_allclose(found, NETWORK.scores(blocks, x), atol=1e-6)
        np.testing.assert_allclose(values, NETWORK.values(blocks, x), atol=1e-6)
    finally:
        learner.shutdown()


@pytest.mark.long(why="RLlib is started, and trains")
@pytest.mark.timeout(200)
@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize(("name", "budget", "epochs"), [("rllib-appo", 2048, 3), ("rllib-impala", 2400, 1)])
def test_a_run_tells_what_happened(name, budget, epochs, tmp_path):
    changes = {"ppo": {"epochs": epochs}} if name == "rllib-appo" else {}
    task = task_of(name, budget_steps=budget, snapshot_every_steps=800, **changes)
    (tmp_path / "task.json").write_bytes(msgspec.json.encode(task))
    command = [sys.executable, "-m", "baselines.run", str(tmp_path), str(os.getpid())]
    there = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=there, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    events = bundle.read_events(tmp_path / "events.jsonl")

    def of(kind):
        return [event for event in events if isinstance(event, kind)]

    (start,) = of(FirstStep)
    counters = {event.name: event.value for event in of(Counter)}
    rows = task.workload.round_steps
    # Its last round may bring somewhat more steps than a round has, and the one before leave less than a round.
    assert budget - rows < counters["learner_steps"] < budget + rows
    snapshots = of(Snapshot)
    assert snapshots[0].steps == snapshots[0].version == 0
    assert [one.steps // 800 for one in snapshots[:-1]] == list(range(len(snapshots) - 1))
    assert [one.version for one in snapshots] == sorted(one.version for one in snapshots)
    # Every round is trained on once, but for those that were under way.
    rounds = counters["learner_optimizer_steps"] / epochs
    assert counters["learner_steps"] / rows - 3 <= rounds <= counters["learner_steps"] / rows
    episodes = of(Episode)
    assert len(episodes) > 20
    assert all(one.episode_return == one.length for one in episodes)
    assert all(one.ns > start.ns for one in episodes)
    # The fragments that were fetched, and those that were ready or under way at the end.
    assert episodes[-1].steps <= counters["learner_steps"] + 2 * rows + 16
    assert sum(one.length for one in episodes) <= episodes[-1].steps + rows
    produced = [one.counts["samples_produced"] for one in of(Progress)]
    assert produced[-1] == counters["learner_steps"]
