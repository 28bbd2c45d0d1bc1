"""Every figure of a report, and the style that they are drawn and written in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from reports import press, staleness
from reports.convergence import figures as convergence
from reports.dataset import Dataset
from reports.looks import STYLE
from reports.scaling import figures as scaling
from reports.transmission import figures as transmission


@contextmanager
def style() -> Iterator[None]:
    """In which figures are drawn; a report has many of them, and frees them all when they are written."""
    with plt.style.context(STYLE), plt.rc_context({"figure.max_open_warning": 0}):
        yield


def all_figures(data: Dataset) -> dict[str, Figure]:
    """Every figure of a report by file name."""
    with style():
        return convergence.figures(data) | staleness.figures(data) | transmission.figures(data) | scaling.figures(data)


def write(figures: dict[str, Figure], out: Path, kinds: Sequence[str]) -> None:
    """Write each figure in these `press.KINDS`, and free it."""
    folder = out / "figures"
    folder.mkdir(exist_ok=True)
    # Text stays text in SVG.
    with plt.style.context(STYLE), plt.rc_context({"svg.fonttype": "none"}):
        press.write(figures, folder, kinds)
