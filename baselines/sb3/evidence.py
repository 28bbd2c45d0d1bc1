"""Results of Stable-Baselines3's own buffers, losses and optimizer on the certificate's frozen data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from baselines.certificate import Evidence, Frozen, batch_of
from baselines.sb3 import weights
from tianji.algorithms.networks import FlatNetwork, Vector


def collect(frozen: Frozen, model: Any) -> Evidence:
    """Evidence of a model that was set up for the workload: one call of its `train` on the frozen batch."""
    state = weights.to_sb3(frozen.network, frozen.weights)
    if frozen.workload.algo == "dqn":
        targets = weights.to_sb3(frozen.network, frozen.target_weights)
        state |= {name: value for name, value in targets.items() if name.startswith("q_net_target")}
    if frozen.workload.squashes:
        targets = weights.to_sb3(frozen.network, frozen.target_weights)
        state |= {name: value for name, value in targets.items() if name.startswith(("critic_target", "actor_target"))}
    model.policy.load_state_dict(state)
    return {"ppo": _ppo, "dqn": _dqn, "sac": _twin, "td3": _twin}[frozen.workload.algo](frozen, model)


def fill_rollouts(chunk: Mapping[str, Any], buffer: Any, gamma: float, values: Callable[[Any], torch.Tensor]) -> None:
    """Fill a rollout buffer with the frozen chunk and let it compute its targets, as its `collect_rollouts` does.

    Parameters
    ----------
    values
        gives the state values of observations.
    """
    t_max, b_max = chunk["reward"].shape
    finals = iter(values(chunk["final_observation"]).numpy())
    starts = np.ones(b_max, np.float32)
    buffer.reset()
    for t in range(t_max):
        # A truncated step's reward is bootstrapped, and any end is an episode's start.
        reward = chunk["reward"][t].copy()
        for b in np.flatnonzero(chunk["truncated"][t]):
            reward[b] += gamma * next(finals)
        log_probability = torch.as_tensor(chunk["log_probability"][t].copy())
        observation = chunk["observation"][t]
        buffer.add(observation, chunk["action"][t].reshape(b_max, -1), reward, starts, values(observation), log_probability)
        starts = (chunk["terminated"][t] | chunk["truncated"][t]).astype(np.float32)
    buffer.compute_returns_and_advantage(last_values=values(chunk["observation"][t_max]), dones=starts)


def samples_of(rows: Mapping[str, Any]) -> Any:
    """The frozen transitions as a draw from a replay buffer."""
    from stable_baselines3.common.type_aliases import ReplayBufferSamples

    columns = (rows["action"], rows["terminated"].astype(np.float32), rows["reward"])
    action, done, reward = (torch.as_tensor(column.copy()).reshape(len(column), -1) for column in columns)
    observation, following = (torch.as_tensor(rows[name].copy()) for name in ("observation", "next_observation"))
    return ReplayBufferSamples(observation, action, following, done, reward)


def _ppo(frozen: Frozen, model: Any) -> Evidence:
    chunk, buffer = frozen.chunk, model.rollout_buffer

    def values(observation: Any) -> torch.Tensor:
        with torch.no_grad():
            predicted: torch.Tensor = model.policy.predict_values(torch.as_tensor(np.ascontiguousarray(observation)))
        return predicted.flatten()

    fill_rollouts(chunk, buffer, model.gamma, values)
    advantages = torch.as_tensor(buffer.advantages.reshape(-1))
    evidence = {
        "targets": buffer.returns.reshape(-1).copy(),
        "advantages": ((advantages - advantages.mean()) / (advantages.std() + 1e-8)).numpy(),
    }
    # The frozen batch has advantages of its own, normalised already: train on it as it stands.
    rows, shape = batch_of(frozen), chunk["reward"].shape
    buffer.advantages[:] = rows["advantage"].reshape(shape)
    buffer.returns[:] = rows["value_target"].reshape(shape)
    model.normalize_advantage = False
    model.n_epochs, model.batch_size = 1, len(rows["action"])
    model.ep_info_buffer = model.ep_success_buffer = None
    return evidence | _one_step(
        frozen.network, frozen.weights, model, model.train, "train/loss", frozen.workload.for_ppo.learning_rate
    )


def _dqn(frozen: Frozen, model: Any) -> Evidence:
    rows = frozen.transitions
    samples = samples_of(rows)
    with torch.no_grad():
        best = model.q_net_target(samples.next_observations).max(dim=1).values.numpy()
    model.replay_buffer.sample = lambda *_, **__: samples
    size = len(rows["action"])
    targets = rows["reward"] + np.where(rows["terminated"], 0, model.gamma * best)
    rate = frozen.workload.for_dqn.learning_rate
    return {"targets": targets} | _one_step(
        frozen.network, frozen.weights, model, lambda: model.train(gradient_steps=1, batch_size=size), "train/loss", rate
    )


def _twin(frozen: Frozen, model: Any) -> Evidence:
    """One call of the `train` of SAC or TD3, whose draws are given the frozen noise, in the order in which it asks."""
    rows, before = frozen.transitions, frozen.network.views(frozen.weights)
    learnt = getattr(model, "log_ent_coef", None)
    if learnt is not None:
        learnt.data.fill_(float(before["temperature.log"][0]))
    # Its buffer holds actions scaled to -1..1.
    samples = samples_of({**rows, "action": np.tanh(rows["action"])})
    model.replay_buffer.sample = lambda *_, **__: samples
    settings: Any = frozen.workload.hyperparameters
    model.lr_schedule = lambda _: settings.learning_rate
    # The update in which it trains the policy too.
    model._n_updates = getattr(model, "policy_delay", 1) - 1
    draws, found = iter(frozen.noise), dict[str, Any]()
    parts: Any = torch.distributions.Normal, torch.nn.functional, torch.Tensor
    usual = parts[0].rsample, parts[1].mse_loss, parts[2].normal_

    def drawn(self: Any, sample_shape: Any = ()) -> torch.Tensor:
        moved: torch.Tensor = self.loc + self.scale * torch.as_tensor(next(draws))
        return moved

    def told(value: torch.Tensor, target: torch.Tensor) -> Any:
        found["targets"] = target.detach().numpy().ravel()
        return usual[1](value, target)

    def filled(self: Any, mean: float = 0, std: float = 1) -> Any:
        return self.copy_(mean + std * torch.as_tensor(frozen.noise[1]))

    critics = model.critic.optimizer
    stepped = critics.step

    def step(*arguments: Any) -> Any:
        # Copies: the policy's loss adds to the gradients of the critics, which the next update clears.
        found["critics"] = {f"critic.{name}": p.grad.clone() for name, p in model.critic.named_parameters()}
        return stepped(*arguments)

    critics.step = step
    parts[0].rsample, parts[1].mse_loss, parts[2].normal_ = drawn, told, filled
    try:
        model.train(gradient_steps=1, batch_size=len(rows["reward"]))
    finally:
        parts[0].rsample, parts[1].mse_loss, parts[2].normal_ = usual
    gradients = found["critics"] | {f"actor.{name}": p.grad for name, p in model.actor.named_parameters()}
    rest = (None, None) if learnt is None else ({"temperature.log": of} for of in (learnt.grad, learnt.detach().numpy()))
    slope, value = rest
    return {
        "targets": found["targets"],
        "loss": np.array([model.logger.name_to_value["train/critic_loss"]]),
        "gradient": weights.from_sb3(frozen.network, gradients, slope),
        "weights": weights.from_sb3(frozen.network, model.policy.state_dict(), value),
    }


def _one_step(network: FlatNetwork, before: Vector, model: Any, train: Any, loss_name: str, learning_rate: float) -> Evidence:
    """Let it train once; the gradient stays where torch put it, clipped."""
    model.lr_schedule = lambda _: learning_rate
    train()
    gradients = {
        name: (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
        for name, parameter in model.policy.named_parameters()
    }
    after: Vector = weights.from_sb3(network, model.policy.state_dict(), network.views(before))
    return {
        "loss": np.array([model.logger.name_to_value[loss_name]]),
        "gradient": weights.from_sb3(network, gradients),
        "weights": after,
    }
