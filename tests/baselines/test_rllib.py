"""RLlib's network is the workload's network: same weights, same outputs."""

import numpy as np
import pytest
import torch

from baselines.rllib import weights
from tianji.algorithms.networks import ActorCritic

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def module():
    import gymnasium as gym
    from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
    from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    env = gym.make("CartPole-v1")
    built = DefaultPPOTorchRLModule(
        observation_space=env.observation_space,
        action_space=env.action_space,
        model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False),
        catalog_class=PPOCatalog,
    )
    env.close()
    return built


def test_weights_survive_the_way_there_and_back(module):
    network = ActorCritic(4, (64, 64), 2)
    flat = network.initialise(3)
    state = weights.to_rllib(network, flat, module.get_state())
    assert set(state) == set(module.get_state())
    assert np.array_equal(weights.from_rllib(network, state), flat)


def test_the_networks_compute_the_same(module):
    network = ActorCritic(4, (64, 64), 2)
    flat = network.initialise(3)
    module.set_state(weights.to_rllib(network, flat, module.get_state()))
    x = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    with torch.no_grad():
        out = module.forward_train({"obs": torch.tensor(x)})
        values = module.compute_values({"obs": torch.tensor(x)}).numpy()
    np.testing.assert_allclose(network.scores(network.views(flat), x), out["action_dist_inputs"].numpy(), atol=1e-6)
    np.testing.assert_allclose(network.values(network.views(flat), x), values, atol=1e-6)


def test_the_probe_counts_every_real_transition_once():
    from baselines.rllib import probe

    class Piece:
        def __init__(self, rewards, before=0, told=None):
            self.rewards, self.t, self.told = rewards, before + len(rewards), told

        def __len__(self):
            return len(self.rewards)

        def get_return(self):
            return sum(self.rewards)

        def get_infos(self, place):
            assert place == -1
            return {} if self.told is None else {"episode": self.told}

    class EnvRunner:
        pass

    callback, runner = probe.EpisodeProbe(), EnvRunner()
    callback.on_environment_created(env_runner=runner)
    callback.on_sample_end(samples=[Piece([1.0] * 10), Piece([1.0] * 22)])
    # The learner has added a row without a reward to the first piece.
    callback.on_episode_end(episode=Piece([1.0] * 5, before=10), prev_episode_chunks=[Piece([1.0] * 10 + [0.0])])
    callback.on_episode_end(episode=Piece([2.0] * 3), prev_episode_chunks=None)
    callback.on_episode_end(episode=Piece([0.1] * 3, told={"r": -50.0}), prev_episode_chunks=None)
    records = list(probe.merged([probe.hand_over(runner)], {}))
    told = [(value, length, steps) for _, value, length, steps in records]
    assert told == [(15.0, 15, 32), (6.0, 3, 32), (-50.0, 3, 32)]
    assert records[0][0] <= records[1][0]
