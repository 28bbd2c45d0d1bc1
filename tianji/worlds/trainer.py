"""What a learner has computed for it: optimizer steps on the chunks that it names."""

from __future__ import annotations

from tianji.algorithms import dqn, networks, ppo
from tianji.algorithms.networks import ActorCritic, QNetwork, Vector
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.roles.learner import Update, UpdateDone
from tianji.telemetry import Account, Clock
from tianji.worlds.workers import Body


class Trainer:
    """Trains on the chunks that the learner names."""

    def __init__(self, config: TrainConfig, describe: EnvDescription, body: Body, clock: Clock) -> None:
        network = networks.build(config.network, describe.features, describe.actions)
        weights = network.initialise(config.seed)
        self.algorithm: ppo.PPO | dqn.DQN
        if isinstance(network, ActorCritic):
            self.algorithm = ppo.PPO(
                ppo.make_kernel(config, network, weights), describe, config.ppo, config.horizon_steps, config.seed
            )
        else:
            assert isinstance(network, QNetwork)
            self.algorithm = dqn.DQN(dqn.make_kernel(config, network, weights), describe, config.dqn, config.seed)
        self.account = Account()
        self._body, self._clock = body, clock

    def weights(self) -> Vector:
        return self.algorithm.kernel.weights()

    def run(self, argument: Update) -> UpdateDone:
        start = self._clock()
        done = self.algorithm.update([self._body(chunk.slot) for chunk in argument.chunks], argument.steps)
        self.account.busy_ns["update"] += self._clock() - start
        return UpdateDone(argument.chunks, done)

    def close(self) -> None:
        """Nothing to free."""
