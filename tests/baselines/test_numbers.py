"""Programs of others train PPO with numbers as actions, and normalise: what they are told, and what a short run records."""

import msgspec
import numpy as np
import pytest
from separate_runs import plain, trained, trained_elsewhere
from told import changed

from baselines import environments, normalisation, system
from baselines.workload import Workload
from suites.session import catalogue

pytestmark = pytest.mark.filterwarnings("ignore")
SEPARATE = ("torchrl", "sample-factory")


def task_of(name, workload):
    return system.Task(name, workload, 5, (0,))


def pendulum():
    """Pendulum with a plain Gaussian, normalised, in a run of seconds."""
    data = msgspec.to_builtins(catalogue.load("pendulum-ppo-gaussian"))
    data["normalise"] = {"observations": True, "rewards": True}
    data["ppo"] |= {"rollout_steps": 128, "epochs": 2}
    data |= {"budget_steps": 2200, "horizon_steps": 2200, "snapshot_every_steps": 1024}
    return msgspec.convert(data, Workload)


@pytest.mark.parametrize("name", ["rllib", *SEPARATE])
def test_they_take_gaussians_and_normalisation_and_refuse_what_they_lack(name):
    unable = system.get(name).unable
    assert unable(catalogue.load("halfcheetah-ppo")) is None
    assert unable(catalogue.load("pendulum-ppo-gaussian")) is None
    assert unable(catalogue.load("pendulum-ppo")) == "state-dependent exploration is not translated to it"
    assert "squashed" in unable(changed("halfcheetah-ppo", actions={"bounds": "squash"}))
    assert "bounds of the deviation" in unable(changed("halfcheetah-ppo", actions={"log_scale_max": 0.5}))
    told = " ".join(system.get(name).deviations(task_of(name, catalogue.load("halfcheetah-ppo"))))
    assert "tatistics" in told
    assert normalisation.ALONE in told
    assert normalisation.ALONE not in system.get(name).deviations(task_of(name, catalogue.load("cartpole-ppo-zoo")))


@pytest.mark.parametrize("name", ["rllib-appo", "rllib-old"])
def test_others_refuse_them(name):
    assert "normalisation" in system.get(name).unable(changed("cartpole-ppo-zoo", normalise={"observations": True}))


def test_sample_factory_is_told_what_its_gymnasium_has():
    under_test, w = system.get("sample-factory"), catalogue.load("halfcheetah-ppo")
    options = plain(task_of("sample-factory", w))["options"]
    assert (options["env"], options["normalize_input"], options["rollout"], options["batch_size"]) == (
        "HalfCheetah-v4",
        True,
        64,
        64,
    )
    told = " ".join(under_test.deviations(task_of("sample-factory", w)))
    assert "HalfCheetah-v4" in told
    assert "64 steps, not 256" in told
    assert under_test.unable(changed("halfcheetah-ppo", env="Walker2d-v5")) == "it has Gymnasium 0.29, which has no Walker2d-v5"


def test_rewards_are_divided_by_the_deviation_of_returns():
    import gymnasium as gym

    class Paid(gym.Env):
        observation_space, action_space = gym.spaces.Box(-1, 1, (1,)), gym.spaces.Discrete(2)

        def reset(self, **_):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), 100.0 * (1 + action), False, False, {}

    env = normalisation.normalised_rewards(Paid(), 0.9, 5.0)
    env.reset()
    paid = [env.step(1)[1] for _ in range(200)]
    assert paid[0] == 5.0
    # Discounted returns settle at 2000, and the deviation covers the way there.
    assert 0.1 < paid[-1] < 1


@pytest.mark.long(why="Ray starts and ends")
def test_rllib_records_returns_and_statistics(tmp_path):
    check(trained_elsewhere("rllib", pendulum(), tmp_path))


@pytest.mark.timeout(300)  # Its processes import for a long time where others compute, too.
@pytest.mark.parametrize("name", SEPARATE)
def test_a_program_records_returns_and_statistics(name, tmp_path):
    if reason := environments.missing(name):
        pytest.skip(f"{name}: {reason}")
    check(trained(name, pendulum(), tmp_path))


def check(found):
    """What every run must have recorded: first weights, training of every block, statistics, and returns as they are."""
    assert found.begins_as(5)
    assert found.changed
    last = found.policies[-1]
    ended = last.network.named_tensors(last.weights)
    # Cosine and sine lie within 1; velocities are some units wide.
    assert np.all(np.abs(ended["normaliser.mean"][:2]) < 1)
    assert np.all(ended["normaliser.scale"][:2] > 1)
    assert 0.1 < ended["normaliser.scale"][2] < 1
    assert found.episodes
    # Normalised, a step costs less than one; as it is, a random episode costs several hundred.
    assert all(one.length == 200 and one.episode_return < -300 for one in found.episodes)
