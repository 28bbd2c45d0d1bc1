"""Every figure of a report, and how they are written: as SVG, PDF and PNG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from reports import staleness
from reports.convergence import figures as convergence
from reports.dataset import Dataset
from reports.looks import STYLE
from reports.scaling import figures as scaling
from reports.transmission import figures as transmission

KINDS = ("svg", "pdf", "png")
METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Nothing in a file says when it was made: the same data gives the same bytes."""


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
    """Write each figure in these `KINDS`, and free it."""
    folder = out / "figures"
    folder.mkdir(exist_ok=True)
    # Text stays text in SVG.
    with plt.style.context(STYLE), plt.rc_context({"svg.fonttype": "none"}):
        for name, figure in figures.items():
            for kind in kinds:
                figure.savefig(folder / f"{name}.{kind}", metadata=METADATA.get(kind))
            plt.close(figure)
