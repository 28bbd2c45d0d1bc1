"""A policy as an ONNX graph: from an observation's features to the greedy action."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from programs.cli import ConfigError
from tianji.algorithms.flat import ActionValueNetwork
from tianji.algorithms.networks_torch import outputs, tensor
from tianji.environments.description import Branches, Features
from tianji.policy import Policy


class Greedy(nn.Module):
    """The greedy action of a policy: `Policy.greedy` in torch.

    The input is the features that `EnvDescription.encode` makes; of several branches, the vector and each picture.
    Normalisation is part of the graph, and so are the bounds of numbers and the first choice of each part: what comes out is
    what the environment takes.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self._network = policy.network
        for name, block in policy.network.views(policy.weights.copy()).items():
            self.register_buffer(name.replace(".", "_"), tensor(block))
        low, high = policy.network.actions.float_bounds
        self.register_buffer("low", tensor(low.copy()))
        self.register_buffer("high", tensor(high.copy()))

    def forward(self, *inputs: Tensor) -> Tensor:
        features: Any = inputs[0]
        if isinstance(branches := self._network.features, Branches):
            features = (inputs[0], inputs[1:]) if branches.vector else (inputs[0][:, :0], inputs)
        network, actions = self._network, self._network.actions
        low, high = self.get_buffer("low"), self.get_buffer("high")
        blocks = {name: getattr(self, name.replace(".", "_")) for name in network.shapes()}
        if network.normalised:
            frames = features.reshape(-1, network.normalised) - blocks["normaliser.mean"]
            most = blocks["normaliser.clip"]
            features = torch.clamp(frames * blocks["normaliser.scale"], -most, most).reshape(features.shape)
        scores = outputs(network, blocks, features)[0]
        if isinstance(network, ActionValueNetwork) or actions.kind == "discrete":
            return scores.argmax(dim=1) + actions.start[0]
        if actions.kind == "box":
            mean = scores[:, : actions.outputs]
            if actions.squash:
                mean = low + (torch.tanh(mean) + 1) * ((high - low) / 2)
            return torch.minimum(torch.maximum(mean, low), high)
        if actions.kind == "multi-binary":
            return (scores > 0).long()
        parts = [part.argmax(dim=1) for part in torch.split(scores, list(actions.sizes), dim=1)]
        return torch.stack(parts, dim=1) + torch.tensor(actions.start)


def inputs_of(features: Features, rows: int = 3) -> dict[str, Tensor]:
    """Inputs of the graph by name, all zero."""
    if isinstance(features, int):
        return {"features": torch.zeros((rows, features))}
    if not isinstance(features, Branches):
        return {"features": torch.zeros((rows, *features), dtype=torch.uint8)}
    vector = {"vector": torch.zeros((rows, features.vector))} if features.vector else {}
    pictures = {f"picture{i}": torch.zeros((rows, *shape), dtype=torch.uint8) for i, shape in enumerate(features.images)}
    return vector | pictures


def export(policy: Policy, path: Path) -> None:
    """Write a policy as ONNX, for any number of rows.

    Raises
    ------
    ConfigError
        if a package is missing, or the network has what ONNX has not.
    """
    if missing := [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]:
        raise ConfigError(f"--onnx: {' and '.join(missing)} not installed; pip install 'tianji-bench[onnx]' brings them")
    examples = inputs_of(policy.network.features)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                Greedy(policy).eval(),
                tuple(examples.values()),
                str(path),
                input_names=list(examples),
                output_names=["action"],
                dynamic_shapes={"inputs": tuple({0: torch.export.Dim("rows")} for _ in examples)},
                dynamo=True,
                verbose=False,
                external_data=False,
            )
    except Exception as error:
        path.unlink(missing_ok=True)
        text = " ".join(str(error).split())[:200]
        raise ConfigError(f"--onnx {path}: this network cannot be exported: {type(error).__name__}: {text}") from error
