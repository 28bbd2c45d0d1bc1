"""Sample Factory trains the workload's network with the workload's numbers, in an environment of its own."""

import msgspec
import pytest
from separate_runs import FROZEN, plain, trained
from told import changed

from baselines import environments, system
from suites.session import catalogue

REASON = environments.missing("sample-factory")
installed = pytest.mark.skipif(REASON is not None, reason=f"sample-factory: {REASON}")


def task_of(cores=(0, 1), **changes):
    return system.Task("sample-factory", changed("cartpole-ppo-zoo", **changes), 5, cores)


def test_it_is_told_the_numbers_of_ppo():
    told = plain(task_of())
    options = told["options"]
    assert (options["rollout"], options["batch_size"], options["num_batches_per_epoch"], options["num_epochs"]) == (
        32,
        256,
        1,
        20,
    )
    assert (options["ppo_clip_ratio"], options["gamma"], options["gae_lambda"]) == (0.2, 0.98, 0.8)
    # The whole of the squared error, as in the workload.
    assert (options["value_loss_coeff"], options["exploration_loss_coeff"], options["max_grad_norm"]) == (0.5, 0.0, 0.5)
    assert (options["learning_rate"], options["adam_eps"], options["train_for_env_steps"]) == (1e-3, 1e-5, 100_000)
    assert (options["encoder_mlp_layers"], options["nonlinearity"]) == ([64, 64], "tanh")
    assert not options["actor_critic_share_weights"]
    assert (options["async_rl"], options["serial_mode"]) == (True, False)
    assert (options["normalize_input"], options["normalize_returns"]) == (False, False)
    assert told["lr_schedule"] == "linear_decay"
    smaller = plain(task_of(ppo={"minibatch_size": 64, "learning_rate_schedule": "constant"}))
    assert (smaller["options"]["batch_size"], smaller["options"]["num_batches_per_epoch"]) == (64, 4)
    assert smaller["lr_schedule"] == "constant"


@pytest.mark.parametrize(
    ("environments", "cores", "workers", "splits"),
    [(8, 1, 1, 2), (8, 2, 2, 2), (8, 3, 2, 2), (8, 4, 4, 2), (8, 16, 4, 2), (6, 4, 3, 2), (5, 8, 5, 1), (1, 2, 1, 1)],
)
def test_workers_have_pairs_of_environments(environments, cores, workers, splits):
    options = plain(task_of(tuple(range(cores)), environments=environments))["options"]
    assert (options["num_workers"], options["worker_num_splits"]) == (workers, splits)
    assert options["num_envs_per_worker"] * workers == environments


def test_what_differs_is_said():
    told = " ".join(system.get("sample-factory").deviations(task_of()))
    assert all(words in told for words in ("several versions", "below at 0.833, not at 0.8", "time-out", "each minibatch"))
    constant = " ".join(system.get("sample-factory").deviations(task_of(ppo={"learning_rate_schedule": "constant"})))
    assert "learning rate" not in constant


def test_other_workloads_are_refused():
    unable = system.get("sample-factory").unable
    assert unable(catalogue.load("cartpole-ppo-zoo")) is None
    assert "of PPO" in unable(catalogue.load("cartpole-dqn-zoo"))
    assert "simulator" in unable(catalogue.load("cartpole-ppo-waiting"))
    assert "whole number of minibatches" in unable(changed("cartpole-ppo-zoo", ppo={"minibatch_size": 100}))
    assert "advantages" in unable(changed("cartpole-ppo-zoo", ppo={"normalise_advantages": False}))


@installed
@pytest.mark.timeout(300)  # Its processes import for a long time where others compute, too.
def test_a_run_tells_what_happened(tmp_path):
    w = msgspec.structs.replace(task_of(ppo={"epochs": 3, "minibatch_size": 128}).workload, **FROZEN)
    found = trained("sample-factory", w, tmp_path)
    steps, versions = ([getattr(one, name) for one in found.snapshots] for name in ("steps", "version"))
    assert (steps[0], versions[0]) == (0, 0)
    # Three batches may be under way beside the one that is trained on: it need not wait.
    assert 1600 - 256 < steps[-1] <= 1600 + 3 * 256
    assert versions == sorted(versions)
    assert 6 <= versions[-1] <= 6 * steps[-1] / 256 + 6
    assert found.begins_as(5)
    assert found.changed
    assert all(one.episode_return == one.length for one in found.episodes)
    assert all(found.first_ns < one.ns for one in found.episodes)
    assert sum(one.length for one in found.episodes) <= found.episodes[-1].steps
    assert found.counters["learner_steps"] == steps[-1]
