"""The stored state of an algorithm, from which it continues exactly: arrays, and values that JSON can hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


@dataclass
class State:
    """Named arrays, and values that JSON can hold."""

    arrays: Arrays
    values: dict[str, Any] = field(default_factory=dict)


def part(arrays: Arrays, name: str) -> Arrays:
    """Arrays whose names begin with `NAME.`, under their names without this prefix."""
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}


def named(name: str, arrays: Arrays) -> Arrays:
    """Arrays with the prefix `NAME.` added to their names, the inverse of `part`."""
    return {f"{name}.{key}": array for key, array in arrays.items()}
