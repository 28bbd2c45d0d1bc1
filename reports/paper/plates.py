"""A plate: a figure in the width of a column, what is drawn in it, its caption, and a table of its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports import press
from reports.looks import STYLE
from reports.tables import escape, latex

COLUMN_IN = 3.35
"""Width of a column of a two-column page."""
COLUMNS = 2
"""Of a legend: there is no room for more."""
PAPER = {
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7,
    "legend.fontsize": 6.5,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.5,
    "figure.constrained_layout.use": True,
    # A column's width is a column's width.
    "savefig.bbox": "standard",
    "savefig.dpi": 300,
    # All are drawn before the first is written.
    "figure.max_open_warning": 0,
}
"""What differs from the style of a page."""


ALL = r"""% Every plate, to look at or to copy from: pdflatex all
\documentclass[twocolumn]{article}
\usepackage{booktabs,graphicx}
\begin{document}
%INPUTS%
\end{document}
"""


@dataclass
class Plate:
    """One figure of a paper."""

    name: str
    """Of its files."""
    figure: Figure
    caption: str
    """In whole sentences, with n and what intervals are."""
    drawn: pd.DataFrame
    """Exactly what is in it, a row a mark."""
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Its numbers as text, where that is not what is drawn."""


def new(height_in: float, panels: int = 1, **more: object) -> tuple[Figure, list[Axes]]:
    """A figure of a column's width with panels beside each other."""
    figure, axes = plt.subplots(1, panels, figsize=(COLUMN_IN, height_in), squeeze=False, **more)
    return figure, list(axes[0])


def how_many(counts: Iterable[int]) -> str:
    """`5`, or `4 to 5`."""
    found = {int(n) for n in counts} or {0}
    return " to ".join(str(n) for n in sorted({min(found), max(found)}))


@contextmanager
def style() -> Iterator[None]:
    """In which plates are drawn and written."""
    with plt.style.context(STYLE), plt.rc_context({**PAPER, "svg.fonttype": "none"}):
        yield


def write(plates: Sequence[Plate], out: Path) -> list[Path]:
    """Write each plate as SVG, PDF, PNG, CSV and LaTeX, and free its figure; the files."""
    # First, for what it marks may be written over: what is left of an interrupted run too.
    every = out / "all.tex"
    every.write_text(ALL.replace("%INPUTS%", "\n".join(rf"\input{{{plate.name}}}" for plate in plates)), encoding="utf-8")
    with style():
        written = [every, *press.write({plate.name: plate.figure for plate in plates}, out)]
    for plate in plates:
        table, text = out / f"{plate.name}.csv", out / f"{plate.name}.tex"
        plate.drawn.to_csv(table, index=False, float_format="%.6g")
        text.write_text(tex(plate), encoding="utf-8")
        written += [table, text]
    return written


def tex(plate: Plate) -> str:
    """A figure and, where it has numbers to tell, a table."""
    caption = escape(plate.caption)
    lines = [
        r"\begin{figure}",
        r"\centering",
        rf"\includegraphics[width=\columnwidth]{{{plate.name}.pdf}}",
        rf"\caption{{{caption}}}",
        rf"\label{{fig:{plate.name}}}",
        r"\end{figure}",
    ]
    if not plate.table.empty:
        lines += [
            "",
            r"\begin{table}",
            r"\centering\small",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{plate.name}}}",
            latex(plate.table).rstrip(),
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"
