"""What an algorithm must keep to go on later as if nothing had happened: arrays, and values that JSON can hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


@dataclass
class State:
    """Arrays by name, and values that JSON can hold."""

    arrays: Arrays
    values: dict[str, Any] = field(default_factory=dict)


def of_generator(rng: np.random.Generator) -> dict[str, Any]:
    """A generator's state; its integers have more than 64 bits."""
    return dict(rng.bit_generator.state)


def restore_generator(rng: np.random.Generator, state: dict[str, Any]) -> None:
    """Let a generator go on where another one was."""
    rng.bit_generator.state = state


def part(arrays: Arrays, name: str) -> Arrays:
    """Those arrays whose names begin with `NAME.`, without that."""
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}


def named(name: str, arrays: Arrays) -> Arrays:
    """Inverse of `part`."""
    return {f"{name}.{key}": array for key, array in arrays.items()}
