"""Makes the algorithm that a configuration names."""

from __future__ import annotations

from tianji.algorithms import networks, updaters
from tianji.algorithms.base import Algorithm, Explore
from tianji.algorithms.dqn import DQN
from tianji.algorithms.flat import FlatNetwork
from tianji.algorithms.impala import IMPALA
from tianji.algorithms.ppo import PPO
from tianji.algorithms.sac import SAC
from tianji.algorithms.td3 import TD3
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription

CLASSES: dict[str, type[PPO] | type[IMPALA] | type[DQN] | type[SAC] | type[TD3]] = {
    "ppo": PPO,
    "impala": IMPALA,
    "dqn": DQN,
    "sac": SAC,
    "td3": TD3,
}


def make_algorithm(config: TrainConfig, describe: EnvDescription, group: int = 0) -> Algorithm:
    """The algorithm of one group. All groups start with the same weights, which follow from the seed.

    Raises
    ------
    ConfigError
        if the network cannot read this environment's observations, or the chosen updater cannot compute the network.
    """
    network = networks.of(config, describe)
    updater = updaters.make_updater(config, network, network.initialise(config.seed))
    return CLASSES[config.algo].of(config, describe, updater, group)


def explorer(config: TrainConfig, network: FlatNetwork) -> Explore:
    """How the algorithm's actors choose actions, by this network."""
    return CLASSES[config.algo].explorer(config, network)
