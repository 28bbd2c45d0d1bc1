"""What people name as `module:attribute`, for instance an environment of their own: found, and called, or refused in one line.

The module is looked for in the current folder first, as `python -m` does: the `tianji` command would not by itself.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from programs.cli import ConfigError

SHOWN = 5
"""Names that are offered where none is near."""


def split(reference: str) -> tuple[str, str]:
    """The module's name and the attribute's.

    Raises
    ------
    ValueError
        when this is not written as `module:attribute`.
    """
    module, _, attribute = reference.partition(":")
    if module.endswith(".py"):
        raise ValueError(f"{module} is a file: write its module, {module.removesuffix('.py').replace('/', '.')}:{attribute}")
    if not attribute or not all(part.isidentifier() for part in module.split(".")):
        raise ValueError("write it as module:attribute, for instance my_module:make")
    return module, attribute


def module_of(reference: str, where: str) -> tuple[ModuleType, str]:
    """Import the module, and return it with the attribute's name.

    Parameters
    ----------
    where
        what an error's line begins with.

    Raises
    ------
    ConfigError
        when there is no such module, or it fails.
    """
    try:
        name, attribute = split(reference)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    if name == "__main__":
        # The processes that act and learn have a main module of their own.
        raise ConfigError(
            f"{where}: a running script is no module that other processes can import; put it into a file of its own"
        )
    _search_current_folder()
    try:
        return importlib.import_module(name), attribute
    except ModuleNotFoundError as error:
        # Another name is missing in the module itself, which is another matter.
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"{where}: there is no module {error.name} here, nor among what is installed") from None
        raise ConfigError(f"{where}: importing {name} raises {told(error)}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{where}: importing {name} raises {told(error)}") from error


def _search_current_folder() -> None:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def attribute_of(module: ModuleType, name: str, where: str, others: Iterable[str] = ()) -> Any:
    """A module's attribute.

    Parameters
    ----------
    others
        names that would do as well.

    Raises
    ------
    ConfigError
        when there is none, with the nearest names.
    """
    try:
        return getattr(module, name)
    except AttributeError:
        pass
    public = [known for known, value in vars(module).items() if callable(value) and not known.startswith("_")]
    near = difflib.get_close_matches(name, [*public, *others], n=1)
    own = [known for known in public if getattr(vars(module)[known], "__module__", None) == module.__name__]
    if near:
        hint = f"did you mean {near[0]}?"
    else:
        hint = f"it has {', '.join(own[:SHOWN])}" if own else "it defines nothing that could be meant"
    raise ConfigError(f"{where}: module {module.__name__} has no {name}; {hint}")


def call(function: Any, where: str, *arguments: Any) -> Any:
    """What a user's function returns.

    Raises
    ------
    ConfigError
        when it cannot be called, or raises.
    """
    if not callable(function):
        raise ConfigError(f"{where}: is of type {type(function).__name__} and cannot be called; name a class or a function")
    given = ", ".join(map(repr, arguments))
    return attempt(lambda: function(*arguments), f"{where}: called with ({given})")


def attempt(action: Callable[[], Any], doing: str) -> Any:
    """What a user's code returns; where it raises, a `ConfigError` that names the exception."""
    try:
        return action()
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{doing}, it raises {told(error)}") from error


def told(error: BaseException) -> str:
    """An exception's type and text, on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
