"""Forward passes of all networks in torch, shared by all torch updaters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tianji.algorithms.convolutions import CONVOLUTIONS
from tianji.algorithms.flat import ActionValueNetwork, FlatNetwork, PolicyValueNetwork, Vector
from tianji.algorithms.mlp import ActorCritic, QNetwork, duel

ROWS_AT_ONCE = 256
"""Images in one forward pass for inference. The activations take 0.1 MB per image."""

ROWS_LAST = 16
"""Batch size from which convolutions are faster with channels last in memory (docs/notebook/2026-11-speed.md)."""

Blocks = Mapping[str, Tensor]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": partial(functional.gelu, approximate="tanh"),
}
"""Activations of perceptrons for action values."""


class TorchNetwork(FlatNetwork):
    """Network that defines its own forward pass in torch."""

    @abstractmethod
    def torch_outputs(self, blocks: Blocks, x: Tensor) -> tuple[Tensor, ...]:
        """Logits [N, A] and values [N], or action values [N, A], of encoded observations [N, ...]."""


def heads(network: PolicyValueNetwork, blocks: Blocks, x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [N, A] and values [N] of encoded observations [N, ...]."""
    if isinstance(network, TorchNetwork):
        logits, value = network.torch_outputs(blocks, x)
        return logits, value
    if isinstance(network, ActorCritic):
        x = _vectors(x, blocks["policy.kernel"])
        tops = [_tower(network, blocks, x, tower) for tower in range(len(network.towers))]
    else:
        tops = [_trunk(blocks, x, len(network.hidden))]
    logits = tops[0] @ blocks["policy.kernel"] + blocks["policy.bias"]
    value = (tops[-1] @ blocks["value.kernel"] + blocks["value.bias"]).squeeze(1)
    return logits, value


def action_values(network: ActionValueNetwork, blocks: Blocks, x: Tensor) -> Tensor:
    """Action values [N, A] of encoded observations [N, ...]."""
    if isinstance(network, TorchNetwork):
        return network.torch_outputs(blocks, x)[0]
    depth = len(network.hidden)
    if isinstance(network, QNetwork):
        top, head, activate = _vectors(x, blocks["q.0.kernel"]), f"q.{depth}", ACTIVATIONS[network.activation]
        for i in range(depth):
            top = activate(top @ blocks[f"q.{i}.kernel"] + blocks[f"q.{i}.bias"])
    else:
        top, head = _trunk(blocks, x, depth), "q"
    if network.dueling:
        values: Tensor = duel(blocks, top)
        return values
    return top @ blocks[f"{head}.kernel"] + blocks[f"{head}.bias"]


def outputs(network: FlatNetwork, blocks: Blocks, x: Tensor) -> tuple[Tensor, ...]:
    """Outputs of any network: (logits, values), or (action values,)."""
    if isinstance(network, PolicyValueNetwork):
        return heads(network, blocks, x)
    assert isinstance(network, ActionValueNetwork)
    return (action_values(network, blocks, x),)


@torch.inference_mode()
def evaluate(network: FlatNetwork, blocks: Blocks, x: NDArray[np.generic]) -> tuple[Vector, ...]:
    """`outputs` as NumPy arrays, without gradients. Images are processed in pieces."""
    device = next(iter(blocks.values())).device
    step = ROWS_AT_ONCE if x.dtype == np.uint8 else max(1, len(x))
    starts = range(0, max(1, len(x)), step)
    pieces = [outputs(network, blocks, tensor(x[start : start + step], device)) for start in starts]
    return tuple(torch.cat(column).cpu().numpy() for column in zip(*pieces, strict=True))


def infer(network: FlatNetwork, blocks: Mapping[str, Vector], x: NDArray[np.generic]) -> tuple[Vector, ...]:
    """`evaluate` for parameters in NumPy arrays, which are not copied."""
    return evaluate(network, {name: tensor(block) for name, block in blocks.items()}, x)


def tensor(array: NDArray[np.generic] | Tensor, device: torch.device | None = None) -> Tensor:
    """Tensor over the array's memory, or a copy if the array is read-only (which torch does not support).

    A tensor is returned as it is if it is on the device.
    """
    if isinstance(array, Tensor):
        return array if device is None else array.to(device)
    return torch.as_tensor(array if array.flags.writeable else array.copy(), device=device)


def _tower(network: ActorCritic, blocks: Blocks, x: Tensor, tower: int) -> Tensor:
    for i in range(len(network.hidden)):
        x = torch.tanh(x @ blocks[f"hidden.{i}.kernel"][tower] + blocks[f"hidden.{i}.bias"][tower])
    return x


def _trunk(blocks: Blocks, x: Tensor, depth: int) -> Tensor:
    """Convolutions and dense layers over images as bytes. The first kernel scales them to 0..1."""
    order = torch.channels_last if len(x) >= ROWS_LAST else torch.contiguous_format
    x = x.to(blocks["conv.0.kernel"].dtype, memory_format=order)
    for i, (_, _, stride) in enumerate(CONVOLUTIONS):
        kernel = blocks[f"conv.{i}.kernel"]
        kernel = (kernel if i else kernel / 255).contiguous(memory_format=order)
        x = torch.relu(functional.conv2d(x, kernel, blocks[f"conv.{i}.bias"], stride=stride))
    x = x.flatten(1)
    for i in range(depth):
        x = torch.relu(x @ blocks[f"dense.{i}.kernel"] + blocks[f"dense.{i}.bias"])
    return x


def _vectors(x: Tensor, like: Tensor) -> Tensor:
    """Input of perceptrons: images (bytes) are flattened and scaled to 0..1."""
    return x.flatten(1).to(like.dtype) / 255 if x.dtype == torch.uint8 else x
