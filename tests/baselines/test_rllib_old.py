"""RLlib of Ray 2.9.3 trains the workload's network with the workload's numbers, in an environment of its own."""

import msgspec
import pytest
from separate_runs import FROZEN, plain, trained
from told import changed

from baselines import environments, system
from suites.session import catalogue

REASON = environments.missing("rllib-old")
installed = pytest.mark.skipif(REASON is not None, reason=f"rllib-old: {REASON}")


def task_of(cores=(0, 1), **changes):
    return system.Task("rllib-old", changed("cartpole-ppo-zoo", **changes), 5, cores)


def test_it_is_told_the_numbers_of_ppo():
    told = plain(task_of())
    assert told["rollouts"] == {
        "num_rollout_workers": 0,
        "num_envs_per_worker": 8,
        "rollout_fragment_length": 32,
        "batch_mode": "truncate_episodes",
    }
    training = told["training"]
    assert (training["train_batch_size"], training["sgd_minibatch_size"], training["num_sgd_iter"]) == (256, 256, 20)
    assert (training["clip_param"], training["gamma"], training["lambda_"]) == (0.2, 0.98, 0.8)
    # The whole of the squared error, as in the workload.
    assert (training["vf_loss_coeff"], training["entropy_coeff"], training["grad_clip"]) == (0.5, 0.0, 0.5)
    assert training["lr_schedule"] == [[0, 1e-3], [100_000, 0.0]]
    assert training["model"] == {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh", "vf_share_layers": False}
    assert told["adam_epsilon"] == 1e-5
    assert plain(task_of(ppo={"learning_rate_schedule": "constant"}))["training"]["lr_schedule"] is None


def test_what_differs_is_said_where_it_does():
    told = system.get("rllib-old").deviations
    assert not any("Minibatches" in line or "cores" in line for line in told(task_of()))
    smaller = told(task_of(ppo={"minibatch_size": 100}))
    assert any("same consecutive rows" in line for line in smaller)
    assert any("last 56 rows" in line for line in smaller)
    assert any("however many cores" in line for line in told(task_of((0, 1, 2))))
    assert any("no setting" in line for line in told(task_of(ppo={"normalise_advantages": False})))


def test_other_workloads_are_refused():
    unable = system.get("rllib-old").unable
    assert unable(catalogue.load("cartpole-ppo-zoo")) is None
    assert "of PPO" in unable(catalogue.load("cartpole-dqn-zoo"))
    assert "simulator" in unable(catalogue.load("cartpole-ppo-waiting"))


@installed
@pytest.mark.timeout(300)  # Its processes import for a long time where others compute, too.
def test_a_run_does_and_tells_exactly_what_the_workload_says(tmp_path):
    w = msgspec.structs.replace(task_of(ppo={"epochs": 3, "minibatch_size": 128}).workload, **FROZEN)
    found = trained("rllib-old", w, tmp_path)
    # Whole rounds of 256 steps, with six optimizer steps each.
    assert [one.steps for one in found.snapshots] == [0, 768, 1536]
    assert [one.version for one in found.snapshots] == [0, 18, 36]
    assert found.begins_as(5)
    assert found.changed
    assert all(one.episode_return == one.length for one in found.episodes)
    assert all(found.first_ns < one.ns < found.snapshots[-1].ns for one in found.episodes)
    ended = sum(one.length for one in found.episodes)
    assert 1536 - 8 * 500 < ended <= 1536
    assert found.counters == {"learner_steps": 1536.0, "learner_optimizer_steps": 36.0}
