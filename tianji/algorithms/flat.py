"""Networks whose parameters are one flat float32 vector with named views.

The system sends this vector as weights, Adam updates it in a few array operations, and a snapshot stores it. Dense kernels
are [inputs, outputs]: a layer is `x @ kernel + bias`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tianji import seeds
from tianji.environments.actions import Actions
from tianji.environments.description import Features
from tianji.seeds import Stream

Vector = NDArray[np.float32]
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
PIXEL_SCALE = 255.0
VARIANCE_EPSILON = 1e-6
"""Added to state-dependent variances."""
Parts = tuple[tuple[slice, ...], tuple[slice, ...]]
"""Slices of a flat vector that are the policy's, and those that are the value's."""


class FlatNetwork(ABC):
    """Network whose parameters are blocks of one flat vector, in the order of `shapes`."""

    name: ClassVar[str]
    returns: ClassVar[str]
    """Description, for error messages, of what a user's network of this kind returns."""
    features: Features
    hidden: tuple[int, ...]
    actions: Actions
    """The actions; made from a number, that many Discrete ones."""
    normalised: int = 0
    """Number of features that are normalised before the network sees them, in each frame; 0: none are. Their mean and scale are
    blocks of the vector that nothing trains (`tianji.algorithms.normalisation`)."""
    normalised_clip: float = 10.0
    """Largest absolute value of a normalised feature."""
    pixel_scale: float = PIXEL_SCALE
    """Number by which convolutions divide each byte of a picture."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", Actions.of(self.actions))

    @abstractmethod
    def layer_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each block that is trained, in order."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each block of the flat vector, in order."""
        n = self.normalised
        return self.layer_shapes() | ({"normaliser.mean": (n,), "normaliser.scale": (n,), "normaliser.clip": (1,)} if n else {})

    def normalise(self, blocks: Mapping[str, Vector], x: Vector) -> Vector:
        """Features [N, F] or [N, S F] as the network sees them; as they are, unless they are normalised."""
        if not self.normalised:
            return x
        frames = x.reshape(-1, self.normalised)
        shifted = frames - blocks["normaliser.mean"]
        shifted *= blocks["normaliser.scale"]
        most = blocks["normaliser.clip"]
        np.minimum(np.maximum(shifted, -most, out=shifted), most, out=shifted)
        return shifted.reshape(x.shape)

    @abstractmethod
    def initialise(self, seed: int) -> Vector:
        """Initial parameters, which depend on the seed alone."""

    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        """Arrays of each layer and tower for snapshots: `policy.0.kernel`, ..., `value.2.bias`. Views if possible."""
        return self.views(flat)

    @abstractmethod
    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Scores of the policy, [N, S] (`Actions.scores`), or action values [N, A], for encoded observations [N, ...]."""

    def description(self) -> dict[str, Any]:
        """Plain data from which, with the kind, the same network can be made again."""
        features = msgspec.to_builtins(self.features)
        return {"features": features, "hidden": self.hidden, "actions": self.actions.plain, "dueling": False}

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    def views(self, flat: Any) -> dict[str, Any]:
        """Named blocks as views of a flat vector (NumPy or torch). Writing to a view writes to the vector."""
        return self._blocks(flat, self.size)

    @property
    def acting(self) -> int:
        """Number of leading parameters that actors need: these alone are sent to them. All, unless a kind says otherwise."""
        return self.size

    def acting_views(self, flat: Any) -> dict[str, Any]:
        """Named blocks of the parameters that actors need, as views of a vector of `acting` numbers."""
        return self._blocks(flat, self.acting)

    def _blocks(self, flat: Any, end: int) -> dict[str, Any]:
        """Views of the blocks of a vector's first `end` numbers."""
        blocks, offset = {}, 0
        for name, shape in self.shapes().items():
            if offset == end:
                break
            count = math.prod(shape)
            blocks[name] = flat[offset : offset + count].reshape(shape)
            offset += count
        return blocks

    def load(self) -> None:  # noqa: B027 (most networks need nothing)
        """Import what the first inference would import, so that no account of time has it."""

    def parts(self) -> Parts | None:
        """Slices of the flat vector that are the policy's, and those that are the value's. Together they are the whole vector.

        None: policy and value share parameters, or the network has not both.
        """
        return None

    def flatten(self, tensors: Mapping[str, NDArray[Any]]) -> Vector:
        """Inverse of `named_tensors`.

        Raises
        ------
        ValueError
            if a tensor is missing, has another shape, or does not belong to this network.
        """
        flat = np.zeros(self.size, np.float32)
        places = self.named_tensors(flat)
        if unknown := tensors.keys() - places.keys():
            raise ValueError(f"network {self.name}: it has no tensor {min(unknown)}")
        for name, place in places.items():
            if name not in tensors or tensors[name].shape != place.shape:
                raise ValueError(f"network {self.name}: tensor {name} of shape {place.shape} is missing or has another shape")
            place[...] = tensors[name]
        return flat


class PolicyValueNetwork(FlatNetwork):
    """Network with scores of a policy and state values."""

    returns = "a pair"

    def initialise(self, seed: int) -> Vector:
        """Orthogonal kernels (gain sqrt 2; policy head .01; value head 1) and zero biases."""
        rng, flat = seeds.generator(seed, Stream.WEIGHTS), np.zeros(self.size, np.float32)
        gains, blocks = {"policy.kernel": 0.01, "value.kernel": 1.0}, self.views(flat)
        if self.normalised:
            blocks["normaliser.scale"][:], blocks["normaliser.clip"][:] = 1, self.normalised_clip
        if self.actions.deviations:
            blocks["policy.log_scale"][:] = self.actions.log_scale
        for name, block in blocks.items():
            if name.endswith("kernel"):
                # Each tower has a matrix. A convolution's kernel is treated as a matrix [out, in x side x side].
                for matrix in block if block.ndim == 3 else [block.reshape(len(block), -1)]:
                    matrix[...] = orthogonal(rng, matrix.shape, gains.get(name, math.sqrt(2)))
        return flat

    @staticmethod
    def outputs_of(actions: Actions) -> str:
        """Description, for error messages, of the outputs for N observations."""
        return f"a pair ({actions.score_name} [N, {actions.scores}], values [N])"

    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Scores of the policy."""
        return self.both(blocks, x)[0]

    def values(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """State values [N] of encoded observations [N, ...]."""
        return self.both(blocks, x)[1]

    @abstractmethod
    def both(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, Vector]:
        """Scores [N, S] and state values [N]. Shared layers are computed once."""


class ActionValueNetwork(FlatNetwork):
    """Network with action values.

    With `dueling`, the last hidden layer is twice as wide: one half is the stream of the state's value, the other the stream
    of the actions' advantages (Wang et al., 2016).
    """

    dueling: bool
    returns = "one tensor"

    @staticmethod
    def outputs_of(actions: Actions) -> str:
        """Description, for error messages, of the outputs for N observations."""
        return f"action values [N, {actions.outputs}]"

    def initialise(self, seed: int) -> Vector:
        """Kernels and biases uniform in +-1 / sqrt(inputs), torch's default for layers."""
        rng, flat, inputs = seeds.generator(seed, Stream.WEIGHTS), np.zeros(self.size, np.float32), 0
        for block in self.views(flat).values():
            if block.ndim > 1:  # A kernel: [inputs, outputs], or [out, in, side, side] for a convolution.
                inputs = len(block) if block.ndim == 2 else block[0].size
            block[...] = rng.uniform(-1, 1, block.shape) / math.sqrt(inputs)
        return flat

    def description(self) -> dict[str, Any]:
        return {**super().description(), "dueling": self.dueling}

    @property
    def outputs(self) -> tuple[int, ...]:
        """Number of outputs of each hidden layer. Dueling streams count together."""
        if not self.dueling:
            return self.hidden
        return (*self.hidden[:-1], 2 * self.hidden[-1])


def parted(owned: Iterable[tuple[bool, int]]) -> Parts:
    """Parts of a vector from its blocks in order: whether each is the value's, and its number of parameters."""
    parts: tuple[list[slice], list[slice]] = [], []
    start = 0
    for of_value, size in owned:
        part, end = parts[of_value], start + size
        if part and part[-1].stop == start:
            part[-1] = slice(part[-1].start, end)
        else:
            part.append(slice(start, end))
        start = end
    return tuple(parts[0]), tuple(parts[1])


def head_shapes(prefix: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of one dense layer's blocks."""
    return {f"{prefix}.kernel": (inputs, outputs), f"{prefix}.bias": (outputs,)}


def policy_shapes(inputs: int, actions: Actions) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a policy's blocks: its head, and the log-scales of numbers, [D] or [inputs, D]."""
    log_scale = (inputs, actions.deviations) if actions.state else (actions.deviations,)
    return head_shapes("policy", inputs, actions.outputs) | ({"policy.log_scale": log_scale} if actions.deviations else {})


def policy_scores(actions: Actions, blocks: Mapping[str, Vector], top: Vector) -> Vector:
    """Scores [N, S] of a policy from the inputs of its head, [N, L]."""
    outputs: Vector = top @ blocks["policy.kernel"] + blocks["policy.bias"]
    if not actions.deviations:
        return outputs
    log_scale = blocks["policy.log_scale"]
    deviations = log_deviations(top * top, log_scale)[0] if actions.state else np.broadcast_to(log_scale, outputs.shape)
    return np.concatenate([outputs, deviations], axis=1)


def log_deviations(squares: Vector, log_scale: Vector) -> tuple[Vector, Vector, Vector]:
    """Logarithms of state-dependent deviations, the variances, and the squared scales: [N, D], [N, D] and [L, D].

    The noise of a number is a sum over the layer below, of each unit times a normal number of its own scale.
    """
    scales = np.exp(2 * log_scale)
    variance = squares @ scales
    variance += np.float32(VARIANCE_EPSILON)
    return np.float32(0.5) * np.log(variance), variance, scales


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...], gain: float) -> Vector:
    """A matrix with orthonormal rows or columns times `gain` (Saxe et al., 2014, arXiv 1312.6120)."""
    rows, columns = shape
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))
    return np.asarray(gain * (q if rows >= columns else q.T), np.float32)
