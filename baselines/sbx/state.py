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


def give(model: Any, network: FlatNetwork, flat: Vector) -> None:
    """Give a model its weights; target networks become copies. What its optimizers keep is left alone."""
    policy = model.policy
    if (learnt := getattr(model, "ent_coef_state", None)) is not None and learnt.params:
        log_temperature = jax.numpy.asarray(network.views(flat)["temperature.log"][0])
        model.ent_coef_state = learnt.replace(params=dict.fromkeys(learnt.params, log_temperature))
    for tower, held in towers(policy).items():
        variables = jax.tree.map(jax.numpy.asarray, weights.to_flax(network, flat, tower))
        targets = {"target_params": variables} if hasattr(held, "target_params") else {}
        setattr(policy, _ATTRIBUTES[tower], held.replace(params=variables, **targets))
