"""The two styles of figures, for a page and for a column of a paper; and what a figure is in the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.dataset import Dataset
from reports.tables import how_many
from reports.view import View

T = TypeVar("T")
SHEET = Path(__file__).parent / "style.mplstyle"
"""What both styles have in common."""


@dataclass(frozen=True, eq=False)
class Style:
    """How large figures are drawn and written."""

    name: str
    width_in: float
    legend_columns: int
    """At most: what there is room for."""
    settings: Mapping[str, Any]
    """Of matplotlib, beside those of `SHEET`."""

    def pick(self, page: T, paper: T) -> T:
        """What this style has of something that differs between them."""
        return page if self.name == "page" else paper

    def axes(self, heights_in: tuple[float, float], columns: int = 1, rows: int = 1, **more: Any) -> tuple[Figure, list[Axes]]:
        """A new figure, and its axes row by row.

        Parameters
        ----------
        heights_in
            on a page and in a paper.
        """
        size = (self.width_in, self.pick(*heights_in))
        figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **more)
        return figure, list(axes.flat)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """In which figures are drawn and written; text stays text in SVG, and all are drawn before the first is written."""
        with plt.style.context(SHEET), plt.rc_context({**self.settings, "svg.fonttype": "none", "figure.max_open_warning": 0}):
            yield


PAGE = Style("page", 9.2, 4, {})
PAPER = Style(
    "paper",
    3.35,
    2,
    {
        "font.size": 7,
        "axes.titlesize": 7.5,
        "axes.labelsize": 7,
        "legend.fontsize": 6.5,
        "xtick.labelsize": 6.5,
        "ytick.labelsize": 6.5,
        "lines.linewidth": 1.1,
        "lines.markersize": 3.5,
        # A column's width is a column's width.
        "savefig.bbox": "standard",
        "savefig.dpi": 300,
    },
)


class Drawing(NamedTuple):
    """A figure that was drawn."""

    figure: Figure
    marks: pd.DataFrame
    """Exactly what is in it, a row a mark; of a figure that is on pages alone nothing is kept."""
    n: str
    """Of how many runs or blocks its marks are: `5`, or `4 to 5`."""


class Plot(NamedTuple):
    """A figure of the registry: what it is of, how it is drawn, and in which styles it is there."""

    draw: Callable[[Any, Style], Drawing | None]
    """From what it is of; None where there is nothing to draw."""
    of: type[View] | type[Dataset]
    page: str | None = None
    """How its name ends on a page, after the view's; None: it is not there."""
    paper: str | None = None
    """Likewise in a paper."""
    table: str | None = None
    """The view's table beside it in a paper, where that is not what is drawn."""


def drawing(figure: Figure, marks: Iterable[Mapping[str, Any]] | pd.DataFrame = (), n: str | None = None) -> Drawing:
    """What was drawn; `n` is what its marks say, where nothing else is known."""
    frame = marks if isinstance(marks, pd.DataFrame) else pd.DataFrame(list(marks))
    return Drawing(figure, frame, how_many(frame.get("n", pd.Series(dtype=float)).dropna()) if n is None else n)
