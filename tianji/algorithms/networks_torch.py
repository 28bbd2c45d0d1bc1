"""Forward passes of all networks in torch, shared by all torch updaters."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tianji.algorithms.convolutions import pictures
from tianji.algorithms.flat import VARIANCE_EPSILON, ActionValueNetwork, FlatNetwork, PolicyValueNetwork, Vector
from tianji.algorithms.mlp import ActorCritic, QNetwork, duel
from tianji.algorithms.twin import TwinCritics
from tianji.environments.description import Branches
from tianji.trunks import Picture, convolutions

ROWS_AT_ONCE = 256
"""Images in one forward pass for inference. The activations take 0.1 MB per image."""

ROWS_LAST = 16
"""Batch size from which convolutions are faster with channels last in memory (docs/notebook/2026-11-speed.md)."""

WIDE = 1024 if torch.backends.mkldnn.is_available() else sys.maxsize  # type: ignore[no-untyped-call]
"""Inputs from which a dense layer on a CPU is computed by oneDNN."""

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
        """Scores [N, S] and values [N], or action values [N, A], of encoded observations [N, ...]."""


def heads(network: PolicyValueNetwork, blocks: Blocks, x: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of a policy [N, S] and values [N] of encoded observations [N, ...]."""
    if isinstance(network, TorchNetwork):
        scores, value = network.torch_outputs(blocks, x)
        return scores, value
    if isinstance(network, ActorCritic):
        x = vectors(x, blocks["policy.kernel"])
        tops = [_tower(network, blocks, x, tower) for tower in range(len(network.towers))]
    else:
        tops = [_trunk(network, blocks, x)]
    scores = tops[0] @ blocks["policy.kernel"] + blocks["policy.bias"]
    if network.actions.deviations:
        scores = torch.cat([scores, _log_deviations(network, blocks["policy.log_scale"], tops[0])], dim=1)
    value = (tops[-1] @ blocks["value.kernel"] + blocks["value.bias"]).squeeze(1)
    return _wide(scores), _wide(value)


def _log_deviations(network: PolicyValueNetwork, log_scale: Tensor, top: Tensor) -> Tensor:
    """Logarithms of deviations, [N, D]. Those that depend on the last hidden layer do not train it."""
    if not network.actions.state:
        return log_scale.expand(top.shape[0], -1)  # Not len(): an exported graph is for any number of rows.
    variance = torch.square(top.detach()) @ torch.exp(2 * log_scale)
    return 0.5 * torch.log(variance + VARIANCE_EPSILON)


def action_values(network: ActionValueNetwork, blocks: Blocks, x: Tensor) -> Tensor:
    """Action values [N, A] of encoded observations [N, ...]."""
    if isinstance(network, TorchNetwork):
        return network.torch_outputs(blocks, x)[0]
    depth = len(network.hidden)
    if isinstance(network, QNetwork):
        top, head, activate = vectors(x, blocks["q.0.kernel"]), f"q.{depth}", ACTIVATIONS[network.activation]
        for i in range(depth):
            top = activate(top @ blocks[f"q.{i}.kernel"] + blocks[f"q.{i}.bias"])
    else:
        top, head = _trunk(network, blocks, x), "q"
    if network.dueling:
        values: Tensor = duel(blocks, top)
        return _wide(values)
    return _wide(top @ blocks[f"{head}.kernel"] + blocks[f"{head}.bias"])


def perceptron(blocks: Blocks, owner: str, depth: int, x: Tensor) -> Tensor:
    """Outputs of a ReLU perceptron with `depth` hidden layers, whose blocks begin with its owner's name."""
    x = vectors(x, blocks[f"{owner}.0.kernel"])
    for i in range(depth):
        x = torch.relu(torch.addmm(blocks[f"{owner}.{i}.bias"], x, blocks[f"{owner}.{i}.kernel"]))
    return _wide(torch.addmm(blocks[f"{owner}.{depth}.bias"], x, blocks[f"{owner}.{depth}.kernel"]))


def _wide(outputs: Tensor) -> Tensor:
    """Outputs of a network as float32, if its products were computed in bfloat16: losses subtract what is nearly equal."""
    return outputs.float() if outputs.dtype == torch.bfloat16 else outputs


def outputs(network: FlatNetwork, blocks: Blocks, x: Tensor) -> tuple[Tensor, ...]:
    """Outputs of any network: (scores, values), (action values,) or, of a policy with critics, (scores,)."""
    if isinstance(network, TwinCritics):
        return (perceptron(blocks, "policy", len(network.hidden), x),)
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


def drawn(rows: Tensor, index: NDArray[np.int64]) -> Tensor:
    """Rows of a tensor, by number. Pictures keep channels last in memory.

    `index_select` copies whole rows, and is 15 times as fast as indexing (docs/notebook/2026-11-speed.md).
    """
    places = torch.from_numpy(index).to(rows.device)
    if rows.ndim == 4 and rows.is_contiguous(memory_format=torch.channels_last):
        return rows.permute(0, 2, 3, 1).index_select(0, places).permute(0, 3, 1, 2)
    return rows.index_select(0, places)


def _dense(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """A dense layer before its activation, by the quicker of torch's two libraries for products."""
    if x.shape[1] >= WIDE and x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling():
        product: Tensor = _Wide.apply(x, kernel)  # type: ignore[no-untyped-call]
        return product.add_(bias)
    return torch.addmm(bias, x, kernel)


class _Wide(torch.autograd.Function):
    """Product of [N, I] and [I, J] by oneDNN, up to 2.4 times as fast as MKL (docs/notebook/2026-11-speed.md)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Tensor) -> Tensor:
        ctx.save_for_backward(x, kernel)
        return _by_onednn(x, kernel.T)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor]:
        x, kernel = ctx.saved_tensors
        return _by_onednn(slope, kernel), _by_onednn(x.T, slope.T)


def _by_onednn(x: Tensor, kernel: Tensor) -> Tensor:
    """Product of [N, I] and the transpose of [J, I]."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, kernel, None, "none", [], "")
    return product


def _tower(network: ActorCritic, blocks: Blocks, x: Tensor, tower: int) -> Tensor:
    for i in range(len(network.hidden)):
        x = torch.tanh(x @ blocks[f"hidden.{i}.kernel"][tower] + blocks[f"hidden.{i}.bias"][tower])
    return x


def _trunk(network: FlatNetwork, blocks: Blocks, x: Tensor) -> Tensor:
    """Convolutions and dense layers over pictures as bytes, each of which may be a part of a row with others and a vector."""
    features, like = network.features, next(iter(blocks.values()))
    assert not isinstance(features, int)
    if isinstance(features, Branches):
        # An exported graph gets them apart already.
        vector, images = features.split(x) if isinstance(x, Tensor) else x
        found = pictures(features).items()
        parts = [_convolved(network, blocks, image, *one) for image, one in zip(images, found, strict=True)]
        if features.vector:
            # The bytes of a row are a float32 vector, whatever lies beside them.
            numbers = vector if vector.dtype == torch.float32 else vector.contiguous().view(torch.float32)
            parts.append(numbers.to(like.dtype))
        x = torch.cat(parts, dim=1)
    else:
        x = _convolved(network, blocks, x, "", features)
    for i in range(len(network.hidden)):
        x = torch.relu_(_dense(x, blocks[f"dense.{i}.kernel"], blocks[f"dense.{i}.bias"]))
    return x


def _convolved(network: FlatNetwork, blocks: Blocks, x: Tensor, prefix: str, picture: Picture) -> Tensor:
    """Convolutions over one picture, as rows. The first kernel scales bytes."""
    # An exported graph is for any number of rows.
    many = not torch.compiler.is_compiling() and len(x) >= ROWS_LAST
    order = torch.channels_last if many else torch.contiguous_format
    # All bytes are numbers of bfloat16 too.
    kind = x.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else blocks[f"{prefix}conv.0.kernel"].dtype
    x = x.to(dtype, memory_format=order)
    for i, (_, _, stride) in enumerate(convolutions(picture)):
        kernel = blocks[f"{prefix}conv.{i}.kernel"]
        kernel, bias = kernel if i else kernel / network.pixel_scale, blocks[f"{prefix}conv.{i}.bias"]
        if x.shape[2:] == kernel.shape[2:] and x.dtype == kernel.dtype:
            # One place for the kernel: a product of matrices, which takes a fifth of a convolution's time.
            x = torch.relu_(torch.addmm(bias, x.flatten(1), kernel.flatten(1).T))
        else:
            x = torch.relu_(functional.conv2d(x, kernel.contiguous(memory_format=order), bias, stride=stride))
    return x.flatten(1)


def vectors(x: Tensor, like: Tensor) -> Tensor:
    """Input of perceptrons: images (bytes) are flattened and scaled to 0..1."""
    return x.flatten(1).to(like.dtype) / 255 if x.dtype == torch.uint8 else x
