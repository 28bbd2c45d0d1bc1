"""TorchRL trains the workload's network with the workload's numbers, in an environment of its own."""

import msgspec
import pytest
from separate_runs import FROZEN, plain, trained
from told import changed

from baselines import environments, system
from suites.session import catalogue

REASON = environments.missing("torchrl")
installed = pytest.mark.skipif(REASON is not None, reason=f"torchrl: {REASON}")


def task_of(cores=(0, 1), **changes):
    return system.Task("torchrl", changed("cartpole-ppo-zoo", **changes), 5, cores)


def test_it_is_told_the_numbers_of_ppo():
    told = plain(task_of())
    assert (told["rollout_steps"], told["minibatch_size"], told["epochs"]) == (32, 256, 20)
    assert told["advantages"] == {"gamma": 0.98, "lmbda": 0.8, "average_gae": False}
    # The whole of the squared error, as in the workload.
    assert (told["loss"]["loss_critic_type"], told["loss"]["critic_coeff"]) == ("l2", 0.5)
    assert (told["loss"]["clip_epsilon"], told["loss"]["entropy_bonus"]) == (0.2, False)
    assert (told["adam"], told["decay_steps"], told["max_grad_norm"]) == ({"lr": 1e-3, "eps": 1e-5}, 100_000, 0.5)
    assert (told["hidden"], told["activation"]) == ([64, 64], "Tanh")
    other = plain(task_of(ppo={"learning_rate_schedule": "constant", "entropy_coefficient": 0.01}))
    assert (other["decay_steps"], other["loss"]["entropy_bonus"], other["loss"]["entropy_coeff"]) == (None, True, 0.01)


@pytest.mark.parametrize(("cores", "collectors"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 4), (9, 8), (32, 8)])
def test_collectors_have_the_cores_that_the_learner_leaves(cores, collectors):
    task = task_of(tuple(range(cores)))
    told = plain(task)
    assert (told["collectors"], told["environments_per_collector"]) == (collectors, 8 // collectors)
    assert any("arrive first" in line for line in system.get("torchrl").deviations(task)) is (collectors > 1)


def test_other_workloads_are_refused():
    unable = system.get("torchrl").unable
    assert unable(catalogue.load("cartpole-ppo-zoo")) is None
    assert "of PPO" in unable(catalogue.load("cartpole-dqn-zoo"))
    assert "simulator" in unable(catalogue.load("cartpole-ppo-waiting"))
    assert "whole number of minibatches" in unable(changed("cartpole-ppo-zoo", ppo={"minibatch_size": 100}))


@installed
@pytest.mark.timeout(300)  # Its processes import for a long time where others compute, too.
def test_a_run_tells_what_happened(tmp_path):
    w = msgspec.structs.replace(task_of(ppo={"epochs": 3, "minibatch_size": 128}).workload, **FROZEN)
    found = trained("torchrl", w, tmp_path)
    steps, versions = ([getattr(one, name) for one in found.snapshots] for name in ("steps", "version"))
    assert (steps[0], versions[0]) == (0, 0)
    # Beside the round that is trained on one may wait, and one be under way.
    assert 1600 - 256 < steps[-1] <= 1600 + 2 * 256
    assert versions == sorted(versions)
    assert steps[-1] / 256 - 3 <= versions[-1] / 6 <= steps[-1] / 256
    assert found.begins_as(5)
    assert found.changed
    assert all(one.episode_return == one.length for one in found.episodes)
    assert all(found.first_ns < one.ns for one in found.episodes)
    assert sum(one.length for one in found.episodes) <= found.episodes[-1].steps
    assert found.counters == {"learner_steps": steps[-1], "learner_optimizer_steps": versions[-1]}
