"""User-defined networks: any torch module that a factory function returns, as a flat network.

The factory is called as `make(features, actions)`. `features` is `EnvDescription.features`: the length of a vector, the
(channels, height, width) of a picture, or `Branches`. `actions` is a number, of Discrete actions that many. The module takes N
encoded observations. They are float32 [N, features], or bytes [N, channels, height, width], which it scales itself. Several
branches are rows of bytes, which `Branches.split` takes apart.

For PPO and IMPALA the module returns a pair: scores [N, actions] and values, [N] or [N, 1]. Scores are logits. Of a Box with D
numbers they are D means, then D logarithms of standard deviations. For DQN the module returns action values [N, actions]. It is
used in eval() mode, in which dropout does nothing.

The flat vector holds the module's parameters in their order. Buffers keep the values that the factory gives them, the same in
every process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import and_
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from programs.cli import ConfigError
from tianji import references, seeds
from tianji.algorithms.flat import ActionValueNetwork, Parts, PolicyValueNetwork, Vector, parted
from tianji.algorithms.networks_torch import TorchNetwork, evaluate, tensor
from tianji.environments.actions import Actions
from tianji.environments.description import Branches, Features
from tianji.seeds import Stream

ROWS = 2
"""Number of observations on which a module is tested."""


@dataclass
class ModuleNetwork(TorchNetwork):
    """Base of user-defined networks: parameters under the names that the module gives them."""

    factory: str
    """The factory, as `module:function`."""
    features: Features
    actions: Actions
    module: nn.Module = field(compare=False, repr=False)
    """Module that computes the outputs. Its parameters point to the memory that inference used last."""
    hidden: tuple[int, ...] = field(default=(), init=False)
    name = "factory"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._parameters = dict(self.module.named_parameters())
        self._shapes = {name: tuple(parameter.shape) for name, parameter in self._parameters.items()}
        self._buffers: dict[torch.device, dict[str, Tensor]] = {}
        self._looks_at: Mapping[str, Vector] | None = None

    def layer_shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def initialise(self, seed: int) -> Vector:
        """Parameters that the factory gives its module under this seed of torch's generator."""
        module = _made(self.factory, self.features, self.actions, seed)
        return self.flatten({name: parameter.detach().numpy() for name, parameter in module.named_parameters()})

    def description(self) -> dict[str, Any]:
        return {**super().description(), "factory": self.factory}

    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Scores of the policy, or action values."""
        return self._infer(blocks, x)[0]

    def forward(self, blocks: Mapping[str, Tensor], x: Tensor) -> Any:
        """Output of the module with these parameters instead of its own."""
        if blocks is self._parameters:
            return self.module(x)
        return functional_call(self.module, (dict(blocks), self._buffers_on(x.device)), (x,))

    def _buffers_on(self, device: torch.device) -> dict[str, Tensor]:
        if device not in self._buffers:
            self._buffers[device] = {name: buffer.to(device) for name, buffer in self.module.named_buffers()}
        return self._buffers[device]

    def _infer(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, ...]:
        # An actor uses the same memory at every step, and calling a small module costs less than exchanging its parameters.
        if blocks is not self._looks_at:
            for name, parameter in self._parameters.items():
                parameter.data = tensor(blocks[name])
            # A read-only array was copied, and its original may change.
            self._looks_at = blocks if all(block.flags.writeable for block in blocks.values()) else None
        return evaluate(self, self._parameters, x)


class ModuleActorCritic(ModuleNetwork, PolicyValueNetwork):
    """User-defined network that returns scores and values."""

    def torch_outputs(self, blocks: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        scores, values = self.forward(blocks, x)
        return scores, values.reshape(len(x))

    def both(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, Vector]:
        scores, values = self._infer(blocks, x)
        return scores, values

    def parts(self) -> Parts | None:
        """By the outputs that autograd finds to depend on each parameter."""
        parameters = list(self._parameters.values())
        outputs = _tried(self.module, _observations(self.features), self.factory)
        policy, value = (_reached(output, parameters) for output in outputs)
        if any(map(and_, policy, value)):
            return None
        return parted(zip(value, (parameter.numel() for parameter in parameters), strict=True))


class ModuleQ(ModuleNetwork, ActionValueNetwork):
    """User-defined network that returns action values."""

    dueling = False

    def torch_outputs(self, blocks: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor]:
        return (self.forward(blocks, x),)


def make_module(factory: str, features: Features, actions: Actions | int) -> ModuleActorCritic | ModuleQ:
    """Network of a factory. The module's outputs decide whether it is an actor-critic or an action-value network.

    Raises
    ------
    ConfigError
        if the factory is missing or fails, or if its module cannot be trained. Parameters must be float32 on the CPU and
        require a gradient. Buffers must not change. Outputs must have the right shapes and depend on the observation alone.
    """
    where, actions = f"network.factory {factory}", Actions.of(actions)
    module = _made(factory, features, actions, seed=0)
    _check_parameters(module, where)
    x = _observations(features)
    outputs = _outputs(module, x, actions.scores, where, actions.score_name)
    _check_buffers(module, x, where)
    _check_rows(module, x, outputs, where)
    return (ModuleActorCritic if len(outputs) == 2 else ModuleQ)(factory, features, actions, module)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Context in which torch's generator has this seed. Its earlier state is restored at the end."""
    state = int(seeds.sequence(seed, Stream.WEIGHTS).generate_state(1, np.uint64)[0])
    with torch.random.fork_rng(devices=[]):
        # `torch.manual_seed` would seed the generators of all devices.
        torch.default_generator.manual_seed(state)
        yield


def _made(factory: str, features: Features, actions: Actions, seed: int) -> nn.Module:
    where = f"network.factory {factory}"
    found = references.attribute_of(*references.module_of(factory, where), where)
    with _seeded(seed):
        module = references.call(found, where, features, actions.scores)
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
                f"{where}: parameter {name} does not require a gradient; make a constant a buffer (register_buffer)"
            )


def _observations(features: Features) -> Tensor:
    """Sample observations for the tests of a module, always the same."""
    rng = np.random.default_rng(0)
    if isinstance(features, int):
        return torch.from_numpy(rng.random((ROWS, features), np.float32))
    if isinstance(features, Branches):
        vector = rng.random((ROWS, features.vector), np.float32).view(np.uint8)
        rest = rng.integers(0, 256, (ROWS, features.size_bytes - vector.shape[1]), np.uint8)
        return torch.from_numpy(np.concatenate([vector, rest], axis=1))
    return torch.from_numpy(rng.integers(0, 256, (ROWS, *features), np.uint8))


def _tried(module: nn.Module, x: Tensor, where: str) -> Any:
    with _seeded(0):
        return references.attempt(lambda: module(x), f"{where}: given observations {tuple(x.shape)}")


def _outputs(module: nn.Module, x: Tensor, actions: int, where: str, name: str = "logits") -> list[Tensor]:
    """Checked outputs of the module: scores [N, A] and values [N] or [N, 1], or action values [N, A]."""
    result, rows = _tried(module, x, where), len(x)
    pair = isinstance(result, tuple | list) and len(result) == 2
    outputs = list(result) if pair else [result]
    shapes = [tuple(output.shape) if isinstance(output, Tensor) else None for output in outputs]
    if shapes[0] != (rows, actions) or shapes[1:] not in ([], [(rows,)], [(rows, 1)]):
        said = "a pair of " * pair + " and ".join(map(_said, outputs))
        raise ConfigError(
            f"{where}: of {rows} observations its module makes {said}; wanted is a pair ({name} [{rows}, {actions}], "
            f"values [{rows}]) for ppo and impala, or action values [{rows}, {actions}] for dqn"
        )
    for output in outputs:
        if output.dtype != torch.float32:
            raise ConfigError(f"{where}: its module returns {_dtype(output)}; it must return float32")
    if not any(output.requires_grad for output in outputs):
        raise ConfigError(f"{where}: what its module returns does not depend on its parameters, so there is nothing to learn")
    return outputs


def _reached(output: Tensor, parameters: list[nn.Parameter]) -> list[bool]:
    """Whether an output depends on each parameter."""
    if not output.requires_grad:
        return [False] * len(parameters)
    gradients = torch.autograd.grad(output.sum(), parameters, retain_graph=True, allow_unused=True)
    return [gradient is not None for gradient in gradients]


def _check_buffers(module: nn.Module, x: Tensor, where: str) -> None:
    """Refuse layers that keep running statistics: they update them in train() mode only, and it is not used here."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    if not before:
        return
    parameters = list(module.parameters())
    initial = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad(), _seeded(0):
        for parameter in parameters:
            # Statistics of constant weights may have converged already.
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
    """Check that an observation has the same outputs in any batch, because actors and learners use different batches."""
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
