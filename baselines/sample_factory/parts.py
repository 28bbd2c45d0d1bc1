"""What Sample Factory's processes make: counted environments, and a network that begins as every system's does."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from safetensors.numpy import load_file
from sample_factory.algo.utils.running_mean_std import _DEFAULT_CLIP, _NORM_EPS

from baselines.separate import counted
from baselines.separate.run import INITIAL, Tensors

OUR_SCALES, SCALES = "policy.log_scale", "action_parameterization.learned_stddev"
STATISTICS = "obs_normalizer.running_mean_std.running_mean_std.obs"
"""Its name of the statistics by which observations are normalised."""


def make_environment(name: str, cfg: Any = None, env_config: Any = None, render_mode: str | None = None) -> Any:
    """One environment. The one that is made only to be described has no configuration."""
    if env_config is None:
        return gymnasium.make(name)
    return counted.make(name, env_config.env_id, cfg.num_workers * cfg.num_envs_per_worker, cfg.seed)


def make_actor_critic(cfg: Any, obs_space: Any, action_space: Any) -> Any:
    """Its default network, with the weights that every system begins with."""
    from sample_factory.model.actor_critic import default_make_actor_critic_func

    made = default_make_actor_critic_func(cfg, obs_space, action_space)
    # Statistics of observations begin as its own, of nothing.
    made.load_state_dict(made.state_dict() | to_torch(load_file(INITIAL), len(cfg.encoder_mlp_layers)))
    return made


def names(depth: int) -> dict[str, str]:
    """Sample Factory's name of each of our layers, for so many hidden layers."""
    found = {f"policy.{depth}": "action_parameterization.distribution_linear", f"value.{depth}": "critic_linear"}
    for tower, encoder in (("policy", "actor_encoder"), ("value", "critic_encoder")):
        # A torch Sequential: a linear layer, then its activation, and so on.
        found |= {f"{tower}.{layer}": f"{encoder}.encoders.obs.mlp_head.{2 * layer}" for layer in range(depth)}
    return found


def to_torch(tensors: Tensors, depth: int) -> dict[str, torch.Tensor]:
    """The state of its network. torch's layers hold [outputs, inputs]."""
    found = {}
    for ours, theirs in names(depth).items():
        found[f"{theirs}.weight"] = torch.tensor(tensors[f"{ours}.kernel"].T)
        found[f"{theirs}.bias"] = torch.tensor(tensors[f"{ours}.bias"])
    return found | ({SCALES: torch.tensor(tensors[OUR_SCALES])} if OUR_SCALES in tensors else {})


def from_torch(state: dict[str, torch.Tensor], depth: int) -> Tensors:
    """Parameters of a state of its network, as copies, and the statistics by which it normalises observations."""
    found = {OUR_SCALES: state[SCALES].numpy().copy()} if SCALES in state else {}
    if f"{STATISTICS}.count" in state:
        mean, variance = (state[f"{STATISTICS}.running_{name}"].numpy() for name in ("mean", "var"))
        found["normaliser.mean"], found["normaliser.scale"] = mean.copy(), 1 / np.sqrt(variance + _NORM_EPS)
        found["normaliser.clip"] = np.full(1, _DEFAULT_CLIP)
    for ours, theirs in names(depth).items():
        found[f"{ours}.kernel"] = state[f"{theirs}.weight"].numpy().T.copy()
        found[f"{ours}.bias"] = state[f"{theirs}.bias"].numpy().copy()
    return found
