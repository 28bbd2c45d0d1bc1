"""Registry of objects by name: built-in ones, and those of other packages by entry points."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from programs.cli import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to objects, imported when they are asked for.

    Parameters
    ----------
    group
        entry-point group of other packages.
    built_in
        name to `module:attribute`.
    what
        to call one of them where none has the name that was asked for.
    """

    def __init__(self, group: str, built_in: Mapping[str, str], what: str) -> None:
        self.group, self._built_in, self._what = group, dict(built_in), what

    def names(self) -> list[str]:
        """Every name that can be asked for."""
        return sorted({*self._built_in, *(point.name for point in self._outside())})

    def _outside(self) -> Iterable[EntryPoint]:
        from importlib.metadata import entry_points  # It takes longer to import than everything else here.

        return entry_points(group=self.group)

    def get(self, name: str) -> T:
        """The object of this name.

        Raises
        ------
        ConfigError
            when there is none.
        """
        if name in self._built_in:
            module, _, attribute = self._built_in[name].partition(":")
            found: T = getattr(importlib.import_module(module), attribute)
            return found
        for point in self._outside():
            if point.name == name:
                outside: T = point.load()
                return outside
        near = difflib.get_close_matches(name, self.names(), n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(f"unknown {self._what} {name!r}; {hint}known: {', '.join(self.names())}")
