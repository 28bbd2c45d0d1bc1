"""Figures for a paper: in the width of a column, each with its caption and table, and what is drawn in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import msgspec
import pandas as pd

from reports import escaping, plots, waiting, words
from reports.charts import Axis, Panel
from reports.dataset import Dataset
from reports.messages import Traffic
from reports.nodes import Scaled
from reports.plots import PAPER
from reports.price import Priced
from reports.tables import how_many
from reports.training import AXES, medians, views
from reports.view import TEXTS, Shown, View

MARK = "all.tex"
"""Every figure, to look at or to copy from."""
KINDS = ("svg", "pdf", "png")
METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Nothing in a file says when it was made: the same data gives the same bytes."""
WITHOUT_TABLE = ("curves", "time")
"""Their values are in the table of costs."""
PANELS = 12
"""Workloads of one figure at most: more go on in a figure of their own, `NAME-2`."""
HEIGHT_IN = 1.9


class Plate(NamedTuple):
    """One figure."""

    name: str
    caption: str
    panels: Sequence[Panel]
    tables: Sequence[Shown]
    views: Sequence[View]

    @property
    def marks(self) -> pd.DataFrame:
        """Exactly what is in it, a row a mark."""
        rows = [
            {"panel": panel.title, "name": one.name, panel.x.title: x, panel.y.title or "row": y}
            | ({} if one.low is None or one.high is None else {"low": one.low[at], "high": one.high[at]})
            for panel in self.panels
            for one in panel.curves
            for at, (x, y) in enumerate(zip(one.x, one.y, strict=True))
        ]
        return pd.DataFrame(rows)


def plates(data: Dataset) -> Iterator[Plate]:
    """Every figure that there is something for."""
    for name, (every, own) in _drawn(data).items():
        panels = [panel for panel in every if any(one.x for one in panel.curves)]
        tables = [] if name in WITHOUT_TABLE else [one for view in own for one in view.tables]
        machines = "; ".join(sorted({view.key.machine for view in own}))
        blocks = how_many(len({(b.manifest.session, b.manifest.block) for b in view.runs}) for view in own)
        caption = f"{TEXTS['caption'][name]} n = {blocks} blocks. Machine: {machines}."
        for first in range(0, len(panels), PANELS):
            called = f"{name}-{first // PANELS + 1}" if first else name
            yield Plate(called, caption, panels[first : first + PANELS], [] if first else tables, own)


def _drawn(data: Dataset) -> dict[str, tuple[list[Panel], Sequence[View]]]:
    """By name of a figure, its diagrams and what they are of."""
    trained, mapped, ruled, priced = views(data), waiting.Mapped.all(data), waiting.Ruled.all(data), Priced.all(data)
    scaled, traffic = Scaled.all(data), Traffic.all(data)
    curves = [
        Panel(view.name, AXES["seconds"], Axis("training return"), medians(view, "training", "seconds"), "lines", target)
        for view in trained
        for target in [view.description["thresholds"]["training"]]
    ]
    every = [(view.name, panel) for view in trained for group in view.groups for panel in group.panels]
    costs, time = (
        [msgspec.structs.replace(panel, title=name) for name, panel in every if panel.title == title]
        for title in ("seconds to the training return", "time of each role")
    )
    rules = [panel for view in ruled for group in view.groups for panel in group.panels if panel.target is not None]
    return {
        "curves": (curves, trained),
        "costs": (costs, trained),
        "time": (time, trained),
        "map": ([panel for view in mapped for panel in view.panels()], mapped),
        "rules": (rules, ruled),
        "price": ([panel for view in priced for group in view.groups for panel in group.panels], priced),
        "nodes": ([group.panels[0] for view in scaled for group in view.groups], scaled),
        "messages": ([group.panels[0] for view in traffic for group in view.groups], traffic),
    }


def write(found: Sequence[Plate], out: Path) -> None:
    """Write each figure as SVG, PDF, PNG, CSV and LaTeX."""
    # First, for what it marks may be written over: what is left of an interrupted run too.
    (out / MARK).write_text(words.render("all.tex.j2", names=[one.name for one in found]), encoding="utf-8")
    with PAPER.applied():
        for one in found:
            figure = plots.draw(one.panels, PAPER, HEIGHT_IN)
            for kind in KINDS:
                figure.savefig(out / f"{one.name}.{kind}", metadata=METADATA.get(kind))
            plt.close(figure)
            escaping.csv(one.marks, out / f"{one.name}.csv")
            (out / f"{one.name}.tex").write_text(words.render("figure.tex.j2", plate=one), encoding="utf-8")
