"""The actions of an environment: what a policy's network computes, what chunks hold, and what the environment takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from tianji.config import ActionsConfig

Kind = Literal["discrete", "multi-discrete", "multi-binary", "box"]


@dataclass(frozen=True)
class Actions:
    """An action space of Gymnasium, as plain data, with the form of the policy over it.

    An action has *parts*: one choice of a Discrete space, or several choices, bits or numbers in a row. Chunks and replays hold
    choices counted from 0, bits, and numbers as the policy drew them. `given` makes of them what the environment takes.
    """

    kind: Kind
    sizes: tuple[int, ...]
    """Number of choices of each part; 2 for a bit, 0 for a number."""
    shape: tuple[int, ...] = ()
    """Shape in which the environment takes an action."""
    dtype: str = "<i8"
    """Type in which the environment takes an action."""
    start: tuple[int, ...] = (0,)
    """First choice of each part, where it has choices."""
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    """Bounds of each number; None: there is none."""
    squash: bool = False
    """Whether numbers go through tanh and are stretched to the bounds. If not, they are clipped to them."""
    log_scale: float = 0.0
    """Initial logarithm of the Gaussian's standard deviation, for every number."""
    log_scale_bounds: tuple[float, float] = (-20.0, 2.0)
    """Smallest and largest logarithm of the standard deviation."""
    state: bool = False
    """Whether the deviation depends on the state (gSDE; Raffin et al., 2021, arXiv 2005.05719)."""
    noise_steps: int | None = None
    """Steps for which noise is kept then; None: for a fragment."""

    @classmethod
    def of(cls, actions: Actions | int) -> Actions:
        """Actions as they are; of a number: that many Discrete ones, from 0."""
        return cls("discrete", (actions,)) if isinstance(actions, int) else actions

    def under(self, config: ActionsConfig) -> Actions:
        """These actions with the policy's form that the settings say.

        Raises
        ------
        ValueError
            if numbers without bounds are to be squashed.
        """
        if self.kind != "box":
            return self
        if config.bounds == "squash" and None in (*self.low, *self.high):
            raise ValueError("actions.bounds 'squash' needs finite bounds, and some of this environment's actions have none")
        return replace(
            self,
            squash=config.bounds == "squash",
            log_scale=config.log_scale,
            log_scale_bounds=(config.log_scale_min, config.log_scale_max),
            state=config.exploration == "state",
            noise_steps=config.noise_steps,
        )

    def like(self, other: Actions) -> bool:
        """Whether both are actions of the same space, whatever the policy's form."""
        one, two = (
            replace(actions, squash=False, log_scale=0.0, log_scale_bounds=(0.0, 0.0), state=False, noise_steps=None)
            for actions in (self, other)
        )
        return one == two

    @property
    def parts(self) -> int:
        """Number of parts of an action."""
        return len(self.sizes)

    @property
    def outputs(self) -> int:
        """Width of a policy head: a logit for each choice or bit, or a mean for each number."""
        return sum(self.sizes) if self.kind in ("discrete", "multi-discrete") else self.parts

    @property
    def deviations(self) -> int:
        """Number of deviations of a policy: one for each number."""
        return self.parts if self.kind == "box" else 0

    @property
    def scores(self) -> int:
        """Width of what a policy's network returns, [N, S]: a head's outputs, then the logarithms of deviations."""
        return self.outputs + self.deviations

    @property
    def scale_bounds(self) -> tuple[float, float]:
        """Between which log-scales are held. Those that depend on the state are not."""
        return (-math.inf, math.inf) if self.state else self.log_scale_bounds

    @property
    def score_name(self) -> str:
        """What these scores are called in errors."""
        return "scores" if self.deviations else "logits"

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of an action in chunks and replays."""
        return () if self.kind == "discrete" else (self.parts,)

    @property
    def stored_dtype(self) -> str:
        """Type of an action in chunks and replays."""
        return "<f4" if self.kind == "box" else "<i8"

    @property
    def plain(self) -> Any:
        """Plain data for a policy's file: a number for Discrete actions from 0, else a table."""
        if self.kind == "discrete" and self.start == (0,):
            return self.sizes[0]
        return msgspec.to_builtins(self)

    def __str__(self) -> str:
        if self.kind == "discrete":
            return f"{self.sizes[0]}"
        words = {"multi-discrete": f"choices of {self.sizes}", "multi-binary": f"{self.parts} bits"}
        return words.get(self.kind, f"{self.parts} number{'s' * (self.parts > 1)}")

    def noise(self, rng: np.random.Generator, steps: int, latent: int = 0) -> NDArray[np.float64]:
        """Noise for some steps of one environment, [steps, W]: normal for numbers, else uniform on [0, 1).

        Parameters
        ----------
        latent
            width of the layer on which deviations depend, if they do.
        """
        if self.kind == "box" and self.state:
            kept = self.noise_steps or steps
            matrices = rng.standard_normal((-(-steps // kept), latent * self.parts))
            return np.repeat(matrices, kept, axis=0)[:steps]
        if self.kind == "box":
            return rng.standard_normal((steps, self.parts))
        return rng.random((steps, 2 if self.kind == "discrete" else self.parts))

    def given(self, actions: NDArray[Any]) -> Sequence[Any]:
        """What each of B environments is given for its action, from those that chunks hold, [B, ...]."""
        if self.kind == "discrete":
            listed: list[int] = (actions + self.start[0] if self.start[0] else actions).tolist()
            return listed
        # With a last axis, because the rows of a list of numbers are no arrays.
        return [row[..., 0] for row in self.batched(actions)[..., None]]

    def batched(self, actions: NDArray[Any]) -> NDArray[Any]:
        """What a vector environment is given for the actions of its B environments, [B, ...], in one array."""
        if self.kind == "discrete":
            choices: NDArray[Any] = actions + self.start[0]
            return choices
        if self.kind == "box":
            low, high = self.float_bounds
            if self.squash:
                actions = low + (np.tanh(actions) + 1) * ((high - low) / 2)
            actions = np.minimum(np.maximum(actions, low), high)
            if np.dtype(self.dtype).kind in "iu":
                actions = np.rint(actions)
        else:
            actions = actions + self._start
        shaped: NDArray[Any] = actions.astype(self.dtype).reshape(len(actions), *self.shape)
        return shaped

    def random(self, rng: np.random.Generator, count: int) -> NDArray[Any]:
        """Random actions as chunks hold them, [count, ...]: uniform choices and bits, and numbers from -2 to 2."""
        noise = rng.random((count, *self.stored_shape))
        scaled: NDArray[Any] = 4 * noise - 2 if self.kind == "box" else noise * np.reshape(self.sizes, self.stored_shape)
        return scaled.astype(self.stored_dtype)

    @cached_property
    def float_bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Smallest and largest value of each number, infinite where there is none."""
        infinite = (-np.inf, np.inf)
        low, high = (
            np.array([end if bound is None else bound for bound in bounds], np.float32)
            for bounds, end in zip((self.low, self.high), infinite, strict=True)
        )
        return low, high

    @cached_property
    def _start(self) -> NDArray[np.int64]:
        return np.array(self.start, np.int64)
