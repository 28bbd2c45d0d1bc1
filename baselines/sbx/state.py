"""Training states of SBX's policies: variables, and what the optimizer keeps, for each tower of the network."""

from __future__ import annotations

from typing import Any

import jax

from baselines.sbx import weights
from tianji.algorithms.networks import FlatNetwork, Vector

_ATTRIBUTES = {"policy": "actor_state", "value": "vf_state", "q": "qf_state"}


def towers(policy: Any) -> dict[str, Any]:
    """Flax's training state of each tower that a policy has."""
    return {tower: getattr(policy, name) for tower, name in _ATTRIBUTES.items() if hasattr(policy, name)}


def give(policy: Any, network: FlatNetwork, flat: Vector) -> None:
    """Give a policy its weights; DQN's target network becomes a copy. What its optimizer keeps is left alone."""
    for tower, held in towers(policy).items():
        variables = jax.tree.map(jax.numpy.asarray, weights.to_flax(network, flat, tower))
        targets = {"target_params": variables} if hasattr(held, "target_params") else {}
        setattr(policy, _ATTRIBUTES[tower], held.replace(params=variables, **targets))
