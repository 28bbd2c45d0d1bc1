"""Figures for a paper: in the width of a column, each with its caption and table, and what is drawn in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from reports import figures, words
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.figures import Drawn
from reports.styles import PAPER, Plot
from reports.view import View
from reports.words import Words

MARK = "all.tex"
"""Every figure, to look at or to copy from."""


def draw(data: Dataset, plots: Sequence[Plot] = figures.REGISTRY) -> list[Drawn]:
    """Every one of these figures that there is something for."""
    return figures.draw(data, PAPER, plots)


def caption(one: Drawn) -> str:
    """In whole sentences, with n and what intervals are."""
    said = one.of.words if isinstance(one.of, View) else Words("convergence.j2", one.of)
    return said.say(f"paper_{one.plot.draw.__name__}", one.drawing.n)


def table(one: Drawn) -> pd.DataFrame:
    """Its numbers as text, where that is not what is drawn."""
    if isinstance(one.of, View):
        return one.of.frame(one.plot.table) if one.plot.table else pd.DataFrame()
    return pd.concat([view.frame("ratios").assign(Workload=view.name) for view in Trained.all(one.of)], ignore_index=True)


def write(drawn: Sequence[Drawn], out: Path) -> list[Path]:
    """Write each figure as SVG, PDF, PNG, CSV and LaTeX, and free it; the files."""
    # First, for what it marks may be written over: what is left of an interrupted run too.
    every = out / MARK
    every.write_text(words.render("all.tex.j2", names=[one.name for one in drawn]), encoding="utf-8")
    written = [every, *figures.write(drawn, out, PAPER)]
    for one in drawn:
        marks, text = out / f"{one.name}.csv", out / f"{one.name}.tex"
        one.drawing.marks.to_csv(marks, index=False, float_format="%.6g")
        told = {"name": one.name, "caption": caption(one), "table": table(one)}
        text.write_text(words.render("figure.tex.j2", **told), encoding="utf-8")
        written += [marks, text]
    return written
