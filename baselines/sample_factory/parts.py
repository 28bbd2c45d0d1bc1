"""What Sample Factory's processes make: counted environments, and a network that begins as every system's does."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from safetensors.numpy import load_file

from baselines.separate import counted
from baselines.separate.run import INITIAL, Tensors


def make_environment(name: str, cfg: Any = None, env_config: Any = None, render_mode: str | None = None) -> Any:
    """One environment. The one that is made only to be described has no configuration."""
    if env_config is None:
        return gymnasium.make(name)
    return counted.make(name, env_config.env_id, cfg.num_workers * cfg.num_envs_per_worker, cfg.seed)


def make_actor_critic(cfg: Any, obs_space: Any, action_space: Any) -> Any:
    """Its default network, with the weights that every system begins with."""
    from sample_factory.model.actor_critic import default_make_actor_critic_func

    made = default_make_actor_critic_func(cfg, obs_space, action_space)
    made.load_state_dict(to_torch(load_file(INITIAL), len(cfg.encoder_mlp_layers)))
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
    return found


def from_torch(state: dict[str, torch.Tensor], depth: int) -> Tensors:
    """Parameters of a state of its network, as copies."""
    found = {}
    for ours, theirs in names(depth).items():
        found[f"{ours}.kernel"] = state[f"{theirs}.weight"].numpy().T.copy()
        found[f"{ours}.bias"] = state[f"{theirs}.bias"].numpy().copy()
    return found
