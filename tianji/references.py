"""Imports and calls user code named as `module:attribute`, such as an environment. Errors are one line.

The module is searched in the current folder first, as by `python -m`.
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
"""Number of names that an error lists if none is similar."""


def split(reference: str) -> tuple[str, str]:
    """Split a reference into the names of the module and the attribute.

    Raises
    ------
    ValueError
        if it is not written as `module:attribute`.
    """
    module, _, attribute = reference.partition(":")
    if module.endswith(".py"):
        raise ValueError(f"{module} is a file: write its module, {module.removesuffix('.py').replace('/', '.')}:{attribute}")
    if not attribute or not all(part.isidentifier() for part in module.split(".")):
        raise ValueError("write it as module:attribute, for instance my_module:make")
    return module, attribute


def module_of(reference: str, where: str) -> tuple[ModuleType, str]:
    """Import the module of a reference, and return it with the attribute's name.

    Parameters
    ----------
    where
        start of an error's line.

    Raises
    ------
    ConfigError
        if there is no such module, or its import fails.
    """
    try:
        name, attribute = split(reference)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    if name == "__main__":
        # The processes of roles have their own main module.
        raise ConfigError(f"{where}: other processes cannot import a running script; put this into a separate module")
    _search_current_folder()
    try:
        return importlib.import_module(name), attribute
    except ModuleNotFoundError as error:
        # Otherwise the module itself imports something that is missing.
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"{where}: there is no module {error.name} here, nor among what is installed") from None
        raise ConfigError(f"{where}: importing {name} raises {told(error)}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{where}: importing {name} raises {told(error)}") from error


def _search_current_folder() -> None:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def attribute_of(module: ModuleType, name: str, where: str, others: Iterable[str] = ()) -> Any:
    """Get a module's attribute.

    Parameters
    ----------
    others
        other names that are valid, for the hint.

    Raises
    ------
    ConfigError
        if it is missing, with the most similar names.
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


def call(function: Any, where: str, *arguments: Any, **named: Any) -> Any:
    """Call a user's function and return its result.

    Raises
    ------
    ConfigError
        if it cannot be called, or raises.
    """
    if not callable(function):
        raise ConfigError(f"{where}: is of type {type(function).__name__} and cannot be called; name a class or a function")
    given = ", ".join([*map(repr, arguments), *(f"{name}={value!r}" for name, value in named.items())])
    return attempt(lambda: function(*arguments, **named), f"{where}: called with ({given})")


def attempt(action: Callable[[], Any], doing: str) -> Any:
    """Run a user's code and return its result. An exception becomes a `ConfigError` that names it."""
    try:
        return action()
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{doing}, it raises {told(error)}") from error


def kind_of(value: Any) -> str:
    """Kind of an object in words, for errors."""
    return "a function" if callable(value) and not isinstance(value, type) else f"of type {type(value).__name__}"


def told(error: BaseException) -> str:
    """Type and text of an exception on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
