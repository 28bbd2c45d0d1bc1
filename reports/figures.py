"""The registry of figures, and every figure of a report in either style."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from reports.convergence import figures as convergence
from reports.dataset import Dataset
from reports.scaling import figures as scaling
from reports.staleness import figures as staleness
from reports.styles import Drawing, Plot, Style
from reports.transmission import figures as transmission
from reports.view import View
from suites.session import forks

REGISTRY: tuple[Plot, ...] = (*convergence.PLOTS, *staleness.PLOTS, *transmission.PLOTS, *scaling.PLOTS)
KINDS = ("svg", "pdf", "png")
METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Nothing in a file says when it was made: the same data gives the same bytes."""


class Drawn(NamedTuple):
    """A figure with its name, and what it is of."""

    name: str
    plot: Plot
    of: View | Dataset
    drawing: Drawing


def draw(data: Dataset, style: Style, plots: Sequence[Plot] = REGISTRY) -> list[Drawn]:
    """Every figure that a style has, and that there is something for."""
    found = []
    with style.applied():
        for plot in plots:
            ending = style.pick(plot.page, plot.paper)
            for of in [] if ending is None else subjects(data, plot):
                if (drawing := plot.draw(of, style)) is not None:
                    name = "-".join(filter(None, (of.slug if isinstance(of, View) else None, ending)))
                    found.append(Drawn(name, plot, of, drawing))
    return found


def subjects(data: Dataset, plot: Plot) -> Sequence[View | Dataset]:
    """What a figure is drawn of: each view of its suite, or everything together."""
    return plot.of.all(data) if issubclass(plot.of, View) else [data]


def write(drawn: Sequence[Drawn], out: Path, style: Style, kinds: Sequence[str] = KINDS) -> list[Path]:
    """Write each figure in these `KINDS` as `out/NAME.KIND` on all cores at once, and free it; the files.

    Raises
    ------
    OSError
        when a file cannot be written.
    """
    files = {one.name: [out / f"{one.name}.{kind}" for kind in kinds] for one in drawn}
    # Writing is most of a report's time.
    with style.applied():
        forks.at_once([partial(_save, one.drawing.figure, files[one.name]) for one in drawn])
    for one in drawn:
        plt.close(one.drawing.figure)
    return [file for each in files.values() for file in each]


def _save(figure: Figure, files: Sequence[Path]) -> None:
    for file in files:
        figure.savefig(file, metadata=METADATA.get(file.suffix[1:]))
