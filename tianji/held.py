"""Environments that Python code gives as objects, and not by name: classes and functions of a script or a notebook.

They travel to the run's own processes on this host, by a nameless memory file that those inherit. Nothing of this kind crosses
a socket or is stored: another host, or a run that is resumed later, is given the object again by the code that has it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from programs.cli import ConfigError

MODULE = "held"
"""What stands before the colon in the name of such an environment."""
VARIABLE = "TIANJI_HELD"
"""Environment variable with the number of the inherited file's descriptor."""

_objects: dict[str, Any] = {}
_read_from: list[int] = []
"""The inherited file, once it was read."""


def hold(thing: Callable[..., Any]) -> str:
    """Keep an object, and return the name by which settings speak of it."""
    own = getattr(thing, "__name__", type(thing).__name__).strip("<>")
    number, name = 1, own
    while _objects.get(name, thing) is not thing:
        number += 1
        name = f"{own}{number}"
    _objects[name] = thing
    return f"{MODULE}:{name}"


def is_held(reference: str) -> bool:
    """Whether a name is one that `hold` gave."""
    return reference.startswith(f"{MODULE}:")


def get(reference: str, where: str) -> Any:
    """The object of a name.

    Raises
    ------
    ConfigError
        if this process does not have it. It begins with `where`.
    """
    name = reference.partition(":")[2]
    if name not in _objects and VARIABLE in os.environ and not _read_from:
        _read(int(os.environ[VARIABLE]))
    if name not in _objects:
        raise ConfigError(
            f"{where}: it was given as an object by Python code, and is not here: go on there, with train(config, resume=True) "
            "and the same env"
        )
    return _objects[name]


def _read(descriptor: int) -> None:
    cloudpickle: Any = importlib.import_module("cloudpickle")

    _read_from.append(descriptor)
    _objects.update(cloudpickle.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0)))


def inherited(reference: str) -> tuple[tuple[int, ...], dict[str, str]]:
    """Descriptors that a child must inherit, and its environment variables, to have an object. The caller closes them.

    Raises
    ------
    ConfigError
        if the object cannot be sent to another process.
    """
    if not is_held(reference):
        return (), {}
    cloudpickle: Any = importlib.import_module("cloudpickle")

    name, where = reference.partition(":")[2], f"environment {reference}"
    try:
        data = cloudpickle.dumps({name: get(reference, where)})
    except Exception as error:
        text = " ".join(str(error).split())
        raise ConfigError(f"{where}: it cannot be sent to other processes: {type(error).__name__}: {text}") from error
    descriptor = os.memfd_create("tianji-held")
    os.write(descriptor, data)
    return (descriptor,), {VARIABLE: str(descriptor)}
