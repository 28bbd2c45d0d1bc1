"""Networks of one's own: any torch module that a factory makes, as a flat network.

A factory is called as `make(features, actions)`, with what `EnvDescription.features` is: the length of a vector, or the
(frames, height, width) of an image. Its module takes encoded observations, float32 [N, features] or bytes
[N, frames, height, width] that it scales itself, and returns a pair (logits [N, A], values [N] or [N, 1]) for PPO and
IMPALA, or action values [N, A] for DQN. It is used in eval() mode, in which dropout does nothing.

The flat vector is the module's parameters in their order. Buffers stay as the factory makes them, the same in every process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from programs.cli import ConfigError
from tianji import references, seeds
from tianji.algorithms.flat import ActionValueNetwork, Features, FlatNetwork, PolicyValueNetwork, Vector
from tianji.seeds import Stream

ROWS = 2
"""Observations that a module is tried on."""


@dataclass
class ModuleNetwork(FlatNetwork):
    """What the two networks have in common: parameters, by the names that the module gives them."""

    factory: str
    """`module:function`."""
    features: Features
    actions: int
    module: nn.Module = field(compare=False, repr=False)
    """Says how outputs are computed. Its parameters lie where inference was last asked to look."""
    hidden: tuple[int, ...] = field(default=(), init=False)
    name = "factory"

    def __post_init__(self) -> None:
        self._parameters = dict(self.module.named_parameters())
        self._shapes = {name: tuple(parameter.shape) for name, parameter in self._parameters.items()}
        self._buffers: dict[torch.device, dict[str, Tensor]] = {}
        self._looks_at: Mapping[str, Vector] | None = None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def initialise(self, seed: int) -> Vector:
        """What the factory gives its module when torch's generator is seeded so."""
        module = _made(self.factory, self.features, self.actions, seed)
        return self.flatten({name: parameter.detach().numpy() for name, parameter in module.named_parameters()})

    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        return self.views(flat)

    def description(self) -> dict[str, Any]:
        return {**super().description(), "factory": self.factory}

    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Policy logits, or action values."""
        return self._infer(blocks, x)[0]

    def forward(self, blocks: Mapping[str, Tensor], x: Tensor) -> Any:
        """What the module returns, with these parameters in the place of its own."""
        if blocks is self._parameters:
            return self.module(x)
        return functional_call(self.module, (dict(blocks), self._buffers_on(x.device)), (x,))

    def _buffers_on(self, device: torch.device) -> dict[str, Tensor]:
        if device not in self._buffers:
            self._buffers[device] = {name: buffer.to(device) for name, buffer in self.module.named_buffers()}
        return self._buffers[device]

    def _infer(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, ...]:
        from tianji.algorithms.networks_torch import evaluate, tensor

        # An actor asks about the same memory at every step. To call a small module costs less than to exchange its parameters.
        if blocks is not self._looks_at:
            for name, parameter in self._parameters.items():
                parameter.data = tensor(blocks[name])
            # What may not be written to was copied, and may change where it was copied from.
            self._looks_at = blocks if all(block.flags.writeable for block in blocks.values()) else None
        return evaluate(self, self._parameters, x)


class ModuleActorCritic(ModuleNetwork, PolicyValueNetwork):
    """A module that returns logits and values."""

    def heads(self, blocks: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [N, A] and values [N]."""
        logits, values = self.forward(blocks, x)
        return logits, values.reshape(len(x))

    def values(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        return self._infer(blocks, x)[1]

    def both(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, Vector]:
        logits, values = self._infer(blocks, x)
        return logits, values


class ModuleQ(ModuleNetwork, ActionValueNetwork):
    """A module that returns action values."""

    dueling = False

    def action_values(self, blocks: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Action values [N, A]."""
        values: Tensor = self.forward(blocks, x)
        return values


def make(factory: str, features: Features, actions: int) -> ModuleActorCritic | ModuleQ:
    """The network of a factory; which of the two it is, its module's outputs say.

    Raises
    ------
    ConfigError
        when the factory cannot be found or fails, or its module cannot be trained here: parameters that are not float32 on
        the CPU or that want no gradient, buffers that change, outputs of other shapes, or that depend on more than the
        observation.
    """
    where = f"network.factory {factory}"
    module = _made(factory, features, actions, seed=0)
    _check_parameters(module, where)
    x = _observations(features)
    outputs = _outputs(module, x, actions, where)
    _check_buffers(module, x, where)
    _check_rows(module, x, outputs, where)
    return (ModuleActorCritic if len(outputs) == 2 else ModuleQ)(factory, features, actions, module)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Within, torch's generator gives what follows from this seed; after, what it would have given."""
    state = int(seeds.sequence(seed, Stream.WEIGHTS).generate_state(1, np.uint64)[0])
    with torch.random.fork_rng(devices=[]):
        # Not `torch.manual_seed`, which seeds every device's.
        torch.default_generator.manual_seed(state)
        yield


def _made(factory: str, features: Features, actions: int, seed: int) -> nn.Module:
    where = f"network.factory {factory}"
    found = references.attribute_of(*references.module_of(factory, where), where)
    with _seeded(seed):
        module = references.call(found, where, features, actions)
    if not isinstance(module, nn.Module):
        raise ConfigError(f"{where}: it returns an object of type {type(module).__name__}, and no torch.nn.Module")
    module.eval()
    return module


def _check_parameters(module: nn.Module, where: str) -> None:
    parameters = dict(module.named_parameters())
    if not parameters:
        raise ConfigError(f"{where}: its module has no parameters to train")
    for name, parameter in parameters.items():
        if is_lazy(parameter):
            raise ConfigError(f"{where}: parameter {name} has no shape yet; give the sizes of lazy layers")
        if parameter.dtype != torch.float32:
            raise ConfigError(f"{where}: parameter {name} is {_dtype(parameter)}; all that is trained here is float32")
        if parameter.device.type != "cpu":
            raise ConfigError(f"{where}: parameter {name} is on {parameter.device}; leave it on the cpu: `device` moves it")
        if not parameter.requires_grad:
            raise ConfigError(
                f"{where}: parameter {name} wants no gradient; make what stays as it is a buffer (register_buffer)"
            )


def _observations(features: Features) -> Tensor:
    """Some that a network might see, always the same."""
    rng = np.random.default_rng(0)
    if isinstance(features, int):
        return torch.from_numpy(rng.random((ROWS, features), np.float32))
    return torch.from_numpy(rng.integers(0, 256, (ROWS, *features), np.uint8))


def _tried(module: nn.Module, x: Tensor, where: str) -> Any:
    with _seeded(0):
        return references.attempt(lambda: module(x), f"{where}: given observations {tuple(x.shape)}")


def _outputs(module: nn.Module, x: Tensor, actions: int, where: str) -> list[Tensor]:
    """What the module returns for these observations: logits [N, A] and values, [N] or [N, 1], or action values [N, A]."""
    result, rows = _tried(module, x, where), len(x)
    pair = isinstance(result, tuple | list) and len(result) == 2
    outputs = list(result) if pair else [result]
    shapes = [tuple(output.shape) if isinstance(output, Tensor) else None for output in outputs]
    if shapes[0] != (rows, actions) or shapes[1:] not in ([], [(rows,)], [(rows, 1)]):
        said = "a pair of " * pair + " and ".join(map(_said, outputs))
        raise ConfigError(
            f"{where}: of {rows} observations its module makes {said}; wanted is a pair (logits [{rows}, {actions}], "
            f"values [{rows}]) for ppo and impala, or action values [{rows}, {actions}] for dqn"
        )
    for output in outputs:
        if output.dtype != torch.float32:
            raise ConfigError(f"{where}: its module returns {_dtype(output)}; it must return float32")
    if not any(output.requires_grad for output in outputs):
        raise ConfigError(f"{where}: what its module returns does not depend on its parameters, so there is nothing to learn")
    return outputs


def _check_buffers(module: nn.Module, x: Tensor, where: str) -> None:
    """Layers that keep statistics, of what they see or of weights, do so in train() mode, in which nothing is used here."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    if not before:
        return
    parameters = list(module.parameters())
    initial = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad(), _seeded(0):
        for parameter in parameters:
            # Statistics of weights that stay as they are may have converged.
            parameter.add_(torch.rand_like(parameter))
    try:
        _tried(module.train(), x, where)
    finally:
        module.eval()
        with torch.no_grad():
            for parameter, was in zip(parameters, initial, strict=True):
                parameter.copy_(was)
    for name, buffer in module.named_buffers():
        if not torch.equal(buffer, before[name]):
            raise ConfigError(
                f"{where}: buffer {name} changes with what the module sees, as BatchNorm's do, and only parameters are trained "
                "and sent to actors; take a layer that keeps no statistics, for instance LayerNorm"
            )


def _check_rows(module: nn.Module, x: Tensor, outputs: list[Tensor], where: str) -> None:
    """Actors and learners ask for the same observation in other batches, of one row too, and must get the same."""
    for row in range(len(x)):
        alone = _outputs(module, x[row : row + 1], outputs[0].shape[1], where)
        for one, all_ in zip(alone, outputs, strict=True):
            if not torch.allclose(one.reshape(-1), all_[row].reshape(-1), rtol=1e-2, atol=1e-3, equal_nan=True):
                raise ConfigError(
                    f"{where}: its module gives one observation other outputs in another batch; no layer may use the batch's "
                    "statistics, remember, or draw at random in eval() mode"
                )


def _said(output: Any) -> str:
    return f"a tensor {list(output.shape)}" if isinstance(output, Tensor) else f"an object of type {type(output).__name__}"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
