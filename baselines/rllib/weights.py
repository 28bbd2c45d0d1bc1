"""Conversion of weights between RLlib's default modules and the flat vector of the workload's network.

Statistics by which observations are normalised are no part of a module: a connector of its env runners holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.normalisation import statistics
from tianji.algorithms.networks import FlatNetwork, Vector

# Of each tower: where RLlib keeps its hidden layers, and its head.
_TOWERS = {
    "mlp-separate": {
        "policy": ("encoder.actor_encoder.net.mlp", "pi.net.mlp"),
        "value": ("encoder.critic_encoder.net.mlp", "vf.net.mlp"),
    },
    "mlp-q": {"q": ("encoder.net.mlp", "af.net.mlp")},
}


def _names(network: FlatNetwork) -> dict[str, str]:
    """RLlib's tensor name for each of ours."""
    depth, names = len(network.hidden), {}
    for tower, (encoder, head) in _TOWERS[network.name].items():
        for layer in range(depth + 1):
            # Its encoder is a torch Sequential: a linear layer, then its activation, and so on.
            place = f"{encoder}.{2 * layer}" if layer < depth else f"{head}.0"
            names[f"{tower}.{layer}.kernel"] = f"{place}.weight"
            names[f"{tower}.{layer}.bias"] = f"{place}.bias"
    return names | ({"policy.log_scale": "pi.log_std"} if network.name == "mlp-separate" and network.actions.deviations else {})


def to_rllib(network: FlatNetwork, flat: Vector, like: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """A state for RLlib's module: ours where it has a counterpart, its own elsewhere.

    torch's linear layers hold [outputs, inputs]; ours [inputs, outputs].
    """
    state = {name: np.asarray(value) for name, value in like.items()}
    tensors = network.named_tensors(flat)
    for ours, theirs in _names(network).items():
        # A target network (of DQN) or an old policy (of APPO), where there is one, begins as a copy.
        for name in (theirs, f"_target_{theirs}", f"_old_{theirs}"):
            if name in state:
                state[name] = np.ascontiguousarray(tensors[ours].T)
    return state


def from_rllib(network: FlatNetwork, state: Mapping[str, Any], rest: Mapping[str, Any] | None = None) -> Vector:
    """The flat vector of an RLlib module's state.

    Parameters
    ----------
    rest
        blocks by which observations are normalised, by our names. None: they are zero.
    """
    own = {ours: np.asarray(state[theirs]).T for ours, theirs in _names(network).items()}
    return network.flatten(statistics(network, rest) | own)


def filter_state(env_runner: Any) -> Any:
    """State of the filter of an env runner. It runs in the env runner's process."""
    from ray.rllib.connectors.env_to_module import MeanStdFilter

    (found,) = (one for one in env_runner._env_to_module.connectors if isinstance(one, MeanStdFilter))
    return found.get_state()


def normaliser(state: Mapping[str, Any]) -> dict[str, Any] | None:
    """The blocks by which observations are normalised, of the state of its MeanStdFilter. None: nothing was seen yet."""
    from ray.rllib.utils.filter import SMALL_NUMBER, RunningStat

    (own,) = state.values()
    (told,) = own["running_stats"]
    seen = RunningStat.from_state(told)
    if not seen.num_pushes:
        return None
    return {
        "normaliser.mean": seen.mean,
        "normaliser.scale": 1 / (seen.std + SMALL_NUMBER),
        "normaliser.clip": [own["clip_by_value"]],
    }
