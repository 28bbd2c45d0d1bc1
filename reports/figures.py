"""The registry of figures, and every figure of a report in either style, with its caption and alternative text.

There is one figure for all workloads of a suite, with a panel for each. Files are called `SUITE-NAME`; `figures.json` beside
them has captions and alternative texts.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from reports.asynchrony import figures as asynchrony
from reports.convergence import figures as convergence
from reports.dataset import Dataset
from reports.disciplines import figures as disciplines
from reports.looks import INK
from reports.price import figures as price
from reports.scaling import beyond
from reports.scaling import figures as scaling
from reports.staleness import figures as staleness
from reports.styles import Drawing, Plot, Style
from reports.transmission import figures as transmission
from reports.view import View
from reports.words import Words
from suites.session import forks

REGISTRY: tuple[Plot, ...] = (
    *convergence.PLOTS,
    *staleness.PLOTS,
    *disciplines.PLOTS,
    *price.PLOTS,
    *asynchrony.PLOTS,
    *transmission.PLOTS,
    *scaling.PLOTS,
    beyond.PLOT,
)
KINDS = ("svg", "pdf", "png")
INDEX = "figures.json"
METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Nothing in a file says when it was made: the same data gives the same bytes."""
PANELS = 12
"""Workloads of one figure at most: more go on in a figure of their own, `SUITE-NAME-2`."""


class Drawn(NamedTuple):
    """A figure with its name, and the views that it is of."""

    name: str
    plot: Plot
    views: Sequence[View]
    drawing: Drawing

    @property
    def caption(self) -> str:
        """What is drawn, in whole sentences, with n and what intervals are."""
        return _words(self.plot).say(f"figure_{self.plot.name}", self.views, self.drawing.n)

    @property
    def found(self) -> list[str]:
        """What came of it, in sentences."""
        if self.plot.found is not None:
            return self.plot.found(self.views)
        words, macro = _words(self.plot), f"found_{self.plot.name}"
        if macro in words:
            return words.lines(macro, self.views)
        return [line for view in self.views for line in view.words.lines("headlines")]

    @property
    def alt(self) -> str:
        """The alternative text: the caption, and what was found."""
        return " ".join([self.caption, *self.found])


def _words(plot: Plot) -> Words:
    # Captions are of several views, which they are handed; `v` is a single one.
    return Words(f"{plot.of.suite}.j2", None)


def draw(data: Dataset, style: Style, plots: Sequence[Plot] = REGISTRY) -> list[Drawn]:
    """Every figure that there is something for."""
    found: list[Drawn] = []
    with style.applied():
        for plot in plots:
            views = plot.of.all(data)
            parts = [views[first : first + PANELS] for first in range(0, len(views), PANELS)]
            drawings = [(part, plot.draw(part, style)) for part in parts]
            for number, (part, drawing) in enumerate([(part, one) for part, one in drawings if one is not None], 1):
                name = "-".join([plot.of.suite, plot.name, *([str(number)] if number > 1 else [])])
                found.append(Drawn(name, plot, part, drawing))
    return found


def write(drawn: Sequence[Drawn], out: Path, style: Style, kinds: Sequence[str] = KINDS) -> list[Path]:
    """Write each figure in these `KINDS` as `out/NAME.KIND` on all cores at once, free it, and return the files.

    Raises
    ------
    OSError
        when a file cannot be written.
    """
    files = {one.name: [out / f"{one.name}.{kind}" for kind in kinds] for one in drawn}
    index = [
        {
            "name": one.name,
            "suite": one.plot.of.suite,
            "of": [v.slug for v in one.views],
            "caption": one.caption,
            "alt": one.alt,
        }
        for one in drawn
    ]
    (out / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    # Writing is most of a report's time.
    with style.applied():
        forks.at_once([partial(_save, one.drawing.figure, files[one.name]) for one in drawn])
    for one in drawn:
        plt.close(one.drawing.figure)
    return [out / INDEX, *(file for each in files.values() for file in each)]


def read(out: Path) -> list[dict[str, Any]]:
    """What `write` left in a folder of each figure: `name`, `suite`, `of` (slugs of views), `caption` and `alt`."""
    index = out / INDEX
    found: list[dict[str, Any]] = json.loads(index.read_text(encoding="utf-8")) if index.exists() else []
    return found


def _save(figure: Figure, files: Sequence[Path]) -> None:
    for file in files:
        kind = file.suffix[1:]
        if kind == "svg":
            file.write_text(_themed(figure), encoding="utf-8")
        else:
            figure.savefig(file, metadata=METADATA.get(kind))


def _themed(figure: Figure) -> str:
    """A figure as SVG in the colour of the text around it, on whatever is below it: legible in light and in dark."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata=METADATA["svg"])
    return text.getvalue().replace(INK, "currentColor")
