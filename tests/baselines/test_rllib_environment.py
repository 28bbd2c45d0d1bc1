"""RLlib's own env runner on a synthetic simulator, without a cluster."""

import functools

import pytest

from baselines.rllib import environment as ours
from suites.session import catalogue
from tianji.environments import simulated
from tianji.environments.delays import Delays

pytest.importorskip("ray.rllib")


@pytest.mark.parametrize("how", ["by its id", "by a creator"])
def test_an_env_runner_waits_once_for_all_its_environments(how, monkeypatch):
    from ray import tune
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    slept = []
    monkeypatch.setattr(simulated, "Delays", functools.partial(Delays, clock=lambda: 0, sleep=slept.append))
    workload = catalogue.load("cartpole-dqn-latency")
    environment = ours.environment(workload)
    if how == "by a creator":
        tune.register_env("simulator-of-a-test", ours.make)
        environment["env"] = "simulator-of-a-test"
    else:
        environment["env"] = simulated.FULL_ID
    config = (
        DQNConfig()
        .environment(**environment)
        .env_runners(num_envs_per_env_runner=8, gym_env_vectorize_mode=ours.vectorize_mode(workload))
        .callbacks(on_environment_created=ours.when_created(workload))
        .debugging(seed=3)
    )
    runner = SingleAgentEnvRunner(config=config, worker_index=2, num_workers=2)
    episodes = runner.sample(num_timesteps=40, random_actions=True)
    assert sum(map(len, episodes)) >= 40
    # One wait for the first reset, and one for each step of all eight.
    assert len(slept) == pytest.approx(1 + 40 / 8, abs=1)
    numbers = runner.env.unwrapped.numbers
    runner.stop()
    assert list(numbers) == list(range(8, 16))
