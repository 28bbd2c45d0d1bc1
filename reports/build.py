"""Everything that a report has, from a dataset into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from reports import claims, dataset, figures, page, sections
from reports.claims import Judged
from reports.dataset import Dataset
from reports.styles import PAGE


class Report(NamedTuple):
    """What was written."""

    tables: dict[str, pd.DataFrame]
    claims: list[Judged]
    page: Path


def build(data: Dataset, out: Path, kinds: Sequence[str] = figures.KINDS, *, interactive: bool = True) -> Report:
    """Write summary, series, tables, figures, claims and the pages.

    Parameters
    ----------
    kinds
        formats of figures; the pages need "svg".
    interactive
        whether pages get interactive curves, if the library is installed.
    """
    out.mkdir(parents=True, exist_ok=True)
    dataset.write(data, out)
    made = sections.tables(data)
    judged = claims.judge(data)
    claims.write(judged, out)
    sections.write({"claims": claims.table(judged)} | page.tables(data) | made, out / "tables")
    (out / "figures").mkdir(exist_ok=True)
    figures.write(figures.draw(data, PAGE), out / "figures", PAGE, kinds)
    return Report(made, judged, page.write(data, made, judged, out, interactive=interactive))
