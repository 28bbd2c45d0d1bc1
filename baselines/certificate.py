"""Equivalence certificate: every system computes from identical weights and a frozen batch, and results must agree to 1e-5.

A slow float64 computation is the reference. Four quantities are compared. They are the targets of a fragment of experience, the
loss on a frozen batch, its gradient after clipping, and the weights after one optimizer step. A difference is a deviation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from msgspec import Struct
from numpy.typing import NDArray

from baselines.workload import Workload
from tianji.algorithms import distributions_torch, dqn_torch, networks_torch, ppo_torch, sac_torch, td3_torch
from tianji.algorithms.distributions import from_scores
from tianji.algorithms.networks import ActorCritic, FlatNetwork, QNetwork, TwinCritics, Vector
from tianji.algorithms.sac import aim
from tianji.algorithms.transitions import Transitions
from tianji.environments.description import EnvDescription
from tianji.hyperparameters import ReplayConfig
from tianji.layout import Views, rollout_layout

TOLERANCE = 1e-5
"""Tolerance of the largest absolute difference, relative to the largest reference value if that exceeds 1."""
STEP_FLOOR = 1e-6
"""Weights are compared where the gradient exceeds this: Adam's first step follows a gradient's sign, which rounding
decides below it."""

Evidence = dict[str, NDArray[np.float64]]
"""Results of a system, by quantity (see `QUANTITIES`)."""

QUANTITIES = {
    "targets": "value targets (PPO) or one-step targets (DQN, SAC, TD3) of each transition",
    "advantages": "normalised advantages (PPO)",
    "loss": "of the frozen batch; for SAC and TD3 that of the critics",
    "gradient": "of the loss, after clipping; for SAC and TD3 of each loss in what it trains",
    "weights": "after one optimizer step",
}


@dataclass(frozen=True)
class Frozen:
    """Experience, weights and batch that every system gets."""

    workload: Workload
    describe: EnvDescription
    network: FlatNetwork
    weights: Vector
    target_weights: Vector
    """Weights of target networks (DQN, SAC, TD3), which differ from `weights`."""
    chunk: dict[str, NDArray[Any]]
    """T steps of B environments, with terminated and truncated episodes; see `tianji.layout.rollout_layout`."""
    noise: NDArray[np.float32]
    """Standard normal numbers of the actions that SAC samples: in the states, then in the next ones, [2, N, D]."""

    @property
    def transitions(self) -> dict[str, NDArray[Any]]:
        """The chunk's transitions, one row each in order of (step, environment)."""
        return transitions_of(self.chunk)


def freeze(workload: Workload, seed: int = 7) -> Frozen:
    """The frozen data of a workload; the same in every process."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0xCE27]))
    description = workload.describe()
    network = workload.flat_network(description)
    weights, target_weights = (
        (network.initialise(k) + 0.05 * rng.standard_normal(network.size)).astype(np.float32) for k in (seed, seed + 1)
    )
    if workload.algo == "ppo":
        steps, environments = workload.for_ppo.rollout_steps, workload.environments
    else:
        assert isinstance(workload.hyperparameters, ReplayConfig)
        steps, environments = workload.hyperparameters.batch_size, 1
    actions = description.actions
    layout = rollout_layout(
        steps,
        environments,
        description.stored_shape,
        description.stored_dtype,
        behaviour=True,
        action_shape=actions.stored_shape,
        action_dtype=actions.stored_dtype,
    )
    chunk = layout.views(bytearray(layout.capacity_bytes))
    chunk["observation"][...] = 0.5 * rng.standard_normal(chunk["observation"].shape)
    chunk["final_observation"][...] = 0.5 * rng.standard_normal(chunk["final_observation"].shape)
    if actions.kind == "discrete":
        chunk["action"][...] = rng.integers(0, actions.outputs, chunk["action"].shape)
        likely = np.full(chunk["reward"].shape, -np.log(actions.outputs))
    elif isinstance(network, TwinCritics) and not network.soft:
        # A policy without probabilities.
        chunk["action"][...] = actions.random(rng, steps * environments).reshape(chunk["action"].shape)
        likely = np.zeros(chunk["reward"].shape)
    else:
        rows = description.encode(chunk["observation"][:-1].reshape(-1, *chunk["observation"].shape[2:]))
        policy = from_scores(actions, network.scores(network.views(weights), rows))
        drawn, likely = policy.sample(rng.standard_normal((len(rows), actions.parts)))
        chunk["action"][...] = drawn.reshape(chunk["action"].shape)
        likely = likely.reshape(chunk["reward"].shape)
    chunk["reward"][...] = rng.standard_normal(chunk["reward"].shape)
    ends = (rng.permutation(steps * environments) / (steps * environments)).reshape(steps, environments)
    chunk["terminated"][...] = ends < 0.08
    chunk["truncated"][...] = ends > 0.92
    # A behaviour policy that is near the present one: some ratios are clipped, most are not.
    chunk["log_probability"][...] = likely + 0.15 * rng.standard_normal(likely.shape)
    noise = rng.standard_normal((2, steps * environments, actions.parts), np.float32)
    return Frozen(workload, description, network, weights, target_weights, chunk, noise)


def reference(frozen: Frozen) -> Evidence:
    """Reference results in float64."""
    return {"ppo": _reference_ppo, "dqn": _reference_dqn, "sac": _reference_twin, "td3": _reference_twin}[frozen.workload.algo](
        frozen
    )


def batch_of(frozen: Frozen) -> dict[str, NDArray[Any]]:
    """The frozen batch of a PPO workload: rows with the reference's advantages and targets, as float32."""
    evidence = _ppo_targets(frozen)
    chunk, rows = frozen.chunk, frozen.chunk["reward"].size
    return {
        "observation": chunk["observation"][:-1].reshape(rows, *frozen.describe.stored_shape),
        "action": chunk["action"].reshape(rows, *chunk["action"].shape[2:]),
        "log_probability": chunk["log_probability"].reshape(-1),
        "advantage": evidence["advantages"].astype(np.float32),
        "value_target": evidence["targets"].astype(np.float32),
    }


def _ppo_targets(frozen: Frozen) -> Evidence:
    """Generalised advantages term by term, from their definition (Schulman et al., 2016, equation 16)."""
    assert isinstance(frozen.network, ActorCritic)
    chunk, config = frozen.chunk, frozen.workload.for_ppo
    t_max, b_max = chunk["reward"].shape
    flat = torch.tensor(frozen.weights, dtype=torch.float64)

    def value(observation: NDArray[Any]) -> NDArray[np.float64]:
        x = torch.tensor(frozen.describe.encode(observation), dtype=torch.float64)
        assert isinstance(frozen.network, ActorCritic)
        values: NDArray[np.float64] = networks_torch.heads(frozen.network, frozen.network.views(flat), x)[1].numpy()
        return values

    values = np.stack([value(row) for row in chunk["observation"]])
    finals = iter(value(chunk["final_observation"]))
    delta = np.empty((t_max, b_max))
    for t in range(t_max):
        for b in range(b_max):
            following = next(finals) if chunk["truncated"][t, b] else values[t + 1, b]
            future = 0.0 if chunk["terminated"][t, b] else config.gamma * following
            delta[t, b] = chunk["reward"][t, b] + future - values[t, b]
    advantage = np.zeros((t_max, b_max))
    for b in range(b_max):
        for t in range(t_max):
            weight = 1.0
            for k in range(t, t_max):
                advantage[t, b] += weight * delta[k, b]
                if chunk["terminated"][k, b] or chunk["truncated"][k, b]:
                    break
                weight *= config.gamma * config.gae_lambda
    targets = (advantage + values[:-1]).reshape(-1)
    rows: NDArray[np.float64] = advantage.reshape(-1)
    if config.normalise_advantages:
        rows = (rows - rows.mean()) / (rows.std() + 1e-8)
    return {"targets": targets, "advantages": rows}


def _reference_ppo(frozen: Frozen) -> Evidence:
    assert isinstance(frozen.network, ActorCritic)
    config = frozen.workload.for_ppo
    batch = batch_of(frozen)
    flat = torch.tensor(frozen.weights, dtype=torch.float64, requires_grad=True)
    x = torch.tensor(frozen.describe.encode(batch["observation"]), dtype=torch.float64)
    scores, value = networks_torch.heads(frozen.network, frozen.network.views(flat), x)
    old, advantage, target = (
        torch.tensor(batch[name], dtype=torch.float64) for name in ("log_probability", "advantage", "value_target")
    )
    policy = distributions_torch.from_scores(frozen.network.actions, scores)
    loss = ppo_torch.loss(policy, value, torch.tensor(batch["action"]), old, advantage, target, config)
    rest = _stepped(frozen, flat, loss, config.max_grad_norm, config.learning_rate, config.adam_epsilon)
    return _ppo_targets(frozen) | rest


def _reference_dqn(frozen: Frozen) -> Evidence:
    assert isinstance(frozen.network, QNetwork)
    config, rows = frozen.workload.for_dqn, frozen.transitions
    flat = torch.tensor(frozen.weights, dtype=torch.float64, requires_grad=True)
    target_flat = torch.tensor(frozen.target_weights, dtype=torch.float64)
    x, following = (
        torch.tensor(frozen.describe.encode(rows[name]), dtype=torch.float64) for name in ("observation", "next_observation")
    )
    theirs = networks_torch.action_values(frozen.network, frozen.network.views(target_flat), following)
    with torch.no_grad():
        ours = networks_torch.action_values(frozen.network, frozen.network.views(flat), following)
    # Double: the network chooses, its target network values (van Hasselt et al., 2016, equation 4).
    chosen = (ours if config.double else theirs).argmax(dim=1, keepdim=True)
    best = theirs.gather(1, chosen).squeeze(1).numpy()
    targets = rows["reward"] + np.where(rows["terminated"], 0.0, config.gamma * best)
    values = networks_torch.action_values(frozen.network, frozen.network.views(flat), x)
    loss = dqn_torch.loss(values, torch.tensor(rows["action"]), torch.tensor(targets), config)
    rest = _stepped(frozen, flat, loss, config.max_grad_norm, config.learning_rate, config.adam_epsilon)
    return {"targets": targets} | rest


def transitions_batch(frozen: Frozen) -> Transitions:
    """The frozen transitions as a minibatch of SAC or TD3."""
    rows, encode, settings = frozen.transitions, frozen.describe.encode, frozen.workload.hyperparameters
    return Transitions(
        encode(rows["observation"]),
        np.tanh(rows["action"]),
        rows["reward"],
        np.where(rows["terminated"], np.float32(0), np.float32(settings.gamma)),
        encode(rows["next_observation"]),
        *frozen.noise,
    )


def _reference_twin(frozen: Frozen) -> Evidence:
    """The losses of SAC or TD3 in float64, and Adam's first step in closed form.

    The policy's loss is under the critics' new weights.
    """
    assert isinstance(frozen.network, TwinCritics)
    network, soft = frozen.network, frozen.workload.algo == "sac"
    config: Any = frozen.workload.hyperparameters
    updater: Any = (sac_torch if soft else td3_torch).TorchUpdater(network, config, frozen.weights)
    updater.flat, updater.target = (torch.tensor(v, dtype=torch.float64) for v in (frozen.weights, frozen.target_weights))
    batch = transitions_batch(frozen)
    columns = {name: torch.tensor(column, dtype=torch.float64) for name, column in vars(batch).items()}
    targets = updater.targets(columns)
    flat = updater.flat.clone().requires_grad_()
    loss = updater.critic_loss(network.views(flat), columns, targets)
    (gradient,) = torch.autograd.grad(loss, flat)
    descended = (flat - config.learning_rate * gradient / (gradient.abs() + config.adam_epsilon)).detach().requires_grad_()
    pieces = network.pieces()
    if soft:
        alpha = torch.exp(network.views(updater.flat)["temperature.log"][0])
        own, log_probability = updater.policy_loss(network.views(descended), columns, alpha)
        if config.temperature == "auto":
            gradient[pieces["temperature"]] = -(log_probability.mean().detach() + aim(config, network.actions))
    else:
        own = updater.policy_loss(network.views(descended), columns)
    gradient[pieces["policy"]] = torch.autograd.grad(own, descended)[0][pieces["policy"]]
    g = gradient.numpy()
    weights = frozen.weights.astype(np.float64) - config.learning_rate * g / (np.abs(g) + config.adam_epsilon)
    return {"targets": targets.detach().numpy(), "loss": np.array([loss.item()]), "gradient": g, "weights": weights}


def _stepped(
    frozen: Frozen, flat: torch.Tensor, loss: torch.Tensor, max_norm: float, learning_rate: float, epsilon: float
) -> Evidence:
    """Clip the gradient and take Adam's first step, in closed form: bias correction leaves g / (|g| + epsilon)."""
    (gradient,) = torch.autograd.grad(loss, flat)
    g = gradient.numpy()
    norm = float(np.linalg.norm(g))
    g = g * min(1.0, max_norm / (norm + 1e-6))
    weights = frozen.weights.astype(np.float64) - learning_rate * g / (np.abs(g) + epsilon)
    return {"loss": np.array([loss.item()]), "gradient": g, "weights": weights}


class Equivalence(Struct, frozen=True):
    """One quantity of one system against the reference."""

    workload: str
    system: str
    quantity: str
    error: float | None
    """Largest absolute difference; None where the system does not show this quantity."""
    scale: float
    equal: bool | None


def compare(workload: str, system: str, evidence: Mapping[str, NDArray[Any]], expected: Evidence) -> list[Equivalence]:
    """Compare what a system computed with the reference, quantity by quantity."""
    findings = []
    for quantity, wanted in expected.items():
        scale = max(1.0, float(np.abs(wanted).max()))
        if quantity not in evidence:
            findings.append(Equivalence(workload, system, quantity, None, scale, None))
            continue
        got = np.asarray(evidence[quantity], np.float64)
        difference = np.abs(got - wanted)
        if quantity == "weights":
            difference = difference[np.abs(expected["gradient"]) > STEP_FLOOR]
        error = float(difference.max(initial=0.0))
        findings.append(Equivalence(workload, system, quantity, error, scale, error <= TOLERANCE * scale))
    return findings


def transitions_of(chunk: Views) -> dict[str, NDArray[Any]]:
    """Transitions of a chunk without stacks, one row each, in order of (step, environment).

    The next observation of a truncated step is the last one of its episode, not the first one after the reset. The next
    observation of a terminated step does not matter, because its value is not used.
    """
    t, b = chunk["reward"].shape
    shape = chunk["observation"].shape[2:]
    following = chunk["observation"][1:]
    truncated = chunk["truncated"]
    cut = int(truncated.sum())
    if cut:
        following = following.copy()
        following[truncated] = chunk["final_observation"][:cut]
    return {
        "observation": chunk["observation"][:-1].reshape(t * b, *shape),
        "next_observation": following.reshape(t * b, *shape),
        "action": chunk["action"].reshape(t * b, *chunk["action"].shape[2:]),
        "reward": chunk["reward"].reshape(-1),
        "terminated": chunk["terminated"].reshape(-1),
    }
