"""The rows of `summary.json` as one table, and the one way to find some of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Row = dict[str, Any]
"""One scalar, with everything that says what it is of (`suites.statistics.summary`)."""
NULL, UNKNOWN = -1, -2
"""Codes of a null, which is pandas' own, and of a value that no row has."""


def hashable(value: Any) -> Hashable:
    """A row's value as something to look up: options as a text, `bound = 4, tail = lone`, and None where there are none."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {one}" for name, one in sorted(value.items())) or None
    found: Hashable = value
    return found


class Table:
    """Rows of `summary.json` and a pandas frame of them.

    The frame finds rows; they are handed out as they are written, because pandas makes floats of integers and NaN of nulls.
    """

    def __init__(self, rows: Iterable[Row], frame: pd.DataFrame | None = None) -> None:
        self.rows = list(rows)
        self.frame = pd.DataFrame(self.rows, dtype=object) if frame is None else frame
        self._codes: dict[str, tuple[NDArray[np.intp], dict[Hashable, int]]] = {}

    def where(self, **keys: Any) -> Table:
        """The rows that have all these values; None stands for null."""
        places = self._places(keys)
        return Table([self.rows[place] for place in places], self.frame.iloc[places])

    def one(self, **keys: Any) -> Row | None:
        """The row that has all these values, or None where there is none.

        Raises
        ------
        ValueError
            when there are several: the keys do not say which.
        """
        places = self._places(keys)
        if len(places) > 1:
            raise ValueError(f"{len(places)} rows of summary.json answer to {keys}: more keys must say which")
        return self.rows[places[0]] if len(places) else None

    def known(self, key: str) -> list[Any]:
        """Every value that a key has in any row, but null; sorted."""
        return sorted(self._coded(key)[1]) if self.rows else []

    def _places(self, keys: Mapping[str, Any]) -> NDArray[np.intp]:
        """Where the rows stand that have all these values, in their order."""
        found = np.ones(len(self.rows), bool)
        for key, value in keys.items() if self.rows else ():
            codes, values = self._coded(key)
            wanted = hashable(value)
            found &= codes == (NULL if wanted is None else values.get(wanted, UNKNOWN))
        return np.flatnonzero(found)

    def _coded(self, key: str) -> tuple[NDArray[np.intp], dict[Hashable, int]]:
        """A column as numbers, and the number of each value."""
        if key not in self._codes:
            codes, values = pd.factorize(pd.Series([hashable(value) for value in self.frame[key]], dtype=object))
            self._codes[key] = codes, {value: code for code, value in enumerate(values)}
        return self._codes[key]
