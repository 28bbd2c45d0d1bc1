"""Results of the in-house systems for the certificate: their updaters' numbers on the frozen data."""

from __future__ import annotations

import msgspec
import numpy as np

from baselines.certificate import Evidence, Frozen, batch_of, transitions_batch
from tianji.algorithms import dqn, dqn_numpy, dqn_torch, ppo, ppo_numpy, sac_numpy, td3_numpy
from tianji.algorithms.networks import ActorCritic, QNetwork, TwinCritics
from tianji.algorithms.rollouts import Rollouts
from tianji.config import SACConfig, TD3Config


def evidence(frozen: Frozen) -> Evidence:
    """Targets, loss, gradient and weights after one step, by the updaters that train on a CPU."""
    return {"ppo": _ppo, "dqn": _dqn, "sac": _twin, "td3": _twin}[frozen.workload.algo](frozen)


def _ppo(frozen: Frozen) -> Evidence:
    import torch

    from tianji.algorithms import distributions_torch, ppo_torch

    assert isinstance(frozen.network, ActorCritic)
    config = frozen.workload.for_ppo
    updater = ppo_numpy.NumpyUpdater(frozen.network, config, frozen.weights)
    algorithm = ppo.PPO(updater, frozen.describe, config, frozen.workload.horizon_steps, 0)
    prepared = algorithm.prepare([frozen.chunk])
    rows = batch_of(frozen)
    batch = Rollouts(
        frozen.describe.encode(rows["observation"]),
        rows["action"],
        rows["log_probability"],
        rows["advantage"],
        rows["value_target"],
    )
    # The updater never computes the loss, only its gradient: the loss is that of its network's outputs.
    blocks = frozen.network.views(frozen.weights)
    scores, values = frozen.network.scores(blocks, batch.features), frozen.network.values(blocks, batch.features)
    arrays = (scores, values, batch.action, batch.log_probability, batch.advantage, batch.value_target)
    x, v, action, old, advantage, target = (torch.as_tensor(array) for array in arrays)
    policy = distributions_torch.from_scores(frozen.network.actions, x)
    loss = ppo_torch.loss(policy, v, action, old, advantage, target, config).item()
    updater.step(batch, config.learning_rate)
    return {
        "targets": prepared.value_target,
        "advantages": ppo.normalise(prepared).advantage,
        "loss": np.array([loss]),
        "gradient": updater.grad,
        "weights": updater.weights(),
    }


def _dqn(frozen: Frozen) -> Evidence:
    import torch

    assert isinstance(frozen.network, QNetwork)
    config = frozen.workload.for_dqn
    updater = dqn_numpy.NumpyUpdater(frozen.network, config, frozen.target_weights)
    updater.copy_to_target()
    updater.load(frozen.weights)
    algorithm = dqn.DQN(updater, frozen.describe, config, 1, 0)
    batch = algorithm.regression(frozen.transitions)
    values = frozen.network.scores(frozen.network.views(frozen.weights), batch.features)
    q, action, target = (torch.as_tensor(array) for array in (values, batch.action, batch.target))
    loss = dqn_torch.loss(q, action, target, config).item()
    updater.step(batch, config.learning_rate)
    return {"targets": batch.target, "loss": np.array([loss]), "gradient": updater.grad, "weights": updater.weights()}


def _twin(frozen: Frozen) -> Evidence:
    assert isinstance(frozen.network, TwinCritics)
    config, batch = frozen.workload.hyperparameters, transitions_batch(frozen)
    updater: sac_numpy.NumpyUpdater | td3_numpy.NumpyUpdater
    if isinstance(config, SACConfig):
        updater = sac_numpy.NumpyUpdater(frozen.network, config, frozen.weights)
    else:
        assert isinstance(config, TD3Config)
        # The update in which it trains the policy too.
        every = msgspec.structs.replace(config, policy_every=1)
        updater = td3_numpy.NumpyUpdater(frozen.network, every, frozen.weights)
    updater.target[:] = frozen.target_weights
    targets, loss = updater.targets(batch), updater.measured(batch)["critic_loss"]
    updater.step(batch, config.learning_rate)
    return {"targets": targets, "loss": np.array([loss]), "gradient": updater.grad, "weights": updater.weights()}
