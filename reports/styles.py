"""The two styles of figures, for a page and for a column of a paper; and what a figure is in the registry."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from matplotlib.layout_engine import ConstrainedLayoutEngine

from reports.tables import how_many
from reports.view import View

T = TypeVar("T")
SAFE = {"text.parse_math": False}
"""Names are text, whatever they hold: a dollar begins no formula."""
TALLEST_IN = 100.0
"""What a bitmap of it has room for."""
SHEET = Path(__file__).parent / "style.mplstyle"
"""What both styles have in common."""
PLACES = 6
"""Decimals of the places of axes, as shares of a figure."""


class RoundedLayout(ConstrainedLayoutEngine):
    """Constrained layout with rounded places.

    The last digits of its solver differ between processes, and names within an SVG file are made of all digits.
    """

    def execute(self, fig: Figure) -> Any:
        done = super().execute(fig)
        for axes in fig.axes:
            left, bottom, width, height = (round(place, PLACES) for place in axes.get_position(original=True).bounds)
            axes.set_position((left, bottom, width, height), which="original")
            # An axis that was placed by hand would be left out of the next layout.
            axes.set_in_layout(True)
        return done


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
        size = (self.width_in, min(self.pick(*heights_in), TALLEST_IN))
        figure, axes = plt.subplots(rows, columns, figsize=size, layout=RoundedLayout(), squeeze=False, **more)
        return figure, list(axes.flat)

    def panels(
        self, count: int, heights_in: tuple[float, float], columns: tuple[int, int] = (2, 2), **more: Any
    ) -> tuple[Figure, list[Axes]]:
        """A new figure with so many axes.

        Parameters
        ----------
        heights_in
            of a row of axes, on a page and in a paper.
        columns
            axes in a row at most, likewise.
        """
        across = min(self.pick(*columns), count)
        rows = -(-count // across)
        figure, axes = self.axes((heights_in[0] * rows, heights_in[1] * rows), across, rows, **more)
        for axis in axes[count:]:
            axis.remove()
        return figure, axes[:count]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """In which figures are drawn and written; text stays text in SVG, and all are drawn before the first is written."""
        with (
            plt.style.context(SHEET),
            plt.rc_context({**self.settings, **SAFE, "svg.fonttype": "none", "figure.max_open_warning": 0}),
            warnings.catch_warnings(),
        ):
            # A name may have characters that the font lacks: SVG keeps them as text, a bitmap shows boxes.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            yield


PAGE = Style("page", 7.0, 3, {})
"""Narrow, so that text stays legible where it is shown on a phone."""
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


_PICTURE = {
    "font.size": 11.5,
    "legend.fontsize": 10,
    "legend.columnspacing": 1.0,
    "xtick.labelsize": 10.5,
    "savefig.bbox": "standard",
    "savefig.dpi": 200,
}
_ON_DARK = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
LIGHT = Style("light", 6.0, 2, _PICTURE)
"""Of a picture that is read at any width from 360 px: its text stays legible."""
DARK = Style(
    "dark",
    6.0,
    2,
    _PICTURE
    | dict.fromkeys(_ON_DARK, "#e6edf3")
    | dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "#0d1117")
    | {"grid.color": "#30363d"},
)


class Drawing(NamedTuple):
    """A figure that was drawn."""

    figure: Figure
    marks: pd.DataFrame
    """Exactly what is in it, a row a mark."""
    n: str
    """Of how many runs or blocks its marks are: `5`, or `4 to 5`."""


class Plot(NamedTuple):
    """A figure of the registry: one for all workloads of a suite, with a panel for each."""

    name: str
    """After the suite's, of its files; captions are the macro `figure_NAME` of the suite's template."""
    of: type[View]
    draw: Callable[[Sequence[Any], Style], Drawing | None]
    """From the views that have something for it; None where there is nothing to draw."""
    table: str | None = None
    """The views' table beside it in a paper."""
    found: Callable[[Sequence[Any]], list[str]] | None = None
    """What came of these views, in sentences for those who do not see the figure. None: the template's macro `found_NAME`, or
    the views' headlines."""


def drawing(figure: Figure, marks: Iterable[Mapping[str, Any]] | pd.DataFrame = (), n: str | None = None) -> Drawing:
    """What was drawn; `n` is what its marks say, where nothing else is known."""
    frame = marks if isinstance(marks, pd.DataFrame) else pd.DataFrame(list(marks))
    return Drawing(figure, frame, how_many(frame.get("n", pd.Series(dtype=float)).dropna()) if n is None else n)
