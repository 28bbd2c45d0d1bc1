"""Figures for a paper: in the width of a column, each with its caption and table, and what is drawn in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from reports import escaping, figures, words
from reports.dataset import Dataset
from reports.figures import Drawn
from reports.styles import PAPER, Plot

MARK = "all.tex"
"""Every figure, to look at or to copy from."""


def draw(data: Dataset, plots: Sequence[Plot] = figures.REGISTRY) -> list[Drawn]:
    """Every one of these figures that there is something for."""
    return figures.draw(data, PAPER, plots)


def table(one: Drawn) -> pd.DataFrame:
    """Its numbers as text, of all workloads."""
    if one.plot.table is None:
        return pd.DataFrame()
    frames = [view.frame(one.plot.table).assign(Workload=view.name) for view in one.views]
    found = pd.concat(frames, ignore_index=True).fillna("-")
    return found[["Workload", *found.columns.drop("Workload")]]


def heading(one: Drawn) -> str:
    """The caption of its table: title and explanation."""
    if one.plot.table is None:
        return ""
    title, about, *_ = one.views[0].words.lines(f"table_{one.plot.table}")
    return f"{title.rstrip('.?')}. {about}"


def write(drawn: Sequence[Drawn], out: Path) -> list[Path]:
    """Write each figure as SVG, PDF, PNG, CSV and LaTeX, free it, and return the files."""
    # First, for what it marks may be written over: what is left of an interrupted run too.
    every = out / MARK
    every.write_text(words.render("all.tex.j2", names=[one.name for one in drawn]), encoding="utf-8")
    written = [every, *figures.write(drawn, out, PAPER)]
    for one in drawn:
        marks, text = out / f"{one.name}.csv", out / f"{one.name}.tex"
        escaping.csv(one.drawing.marks, marks)
        told = {"name": one.name, "caption": one.caption, "table": table(one), "heading": heading(one)}
        text.write_text(words.render("figure.tex.j2", **told), encoding="utf-8")
        written += [marks, text]
    return written
