"""Everything that a report has, from a dataset into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from reports import claims, dataset, figures, history, page, press, staleness, tables
from reports.claims import Judged
from reports.convergence import tables as convergence
from reports.dataset import Dataset
from reports.history import Entry
from reports.scaling import tables as scaling
from reports.transmission import tables as transmission


class Report(NamedTuple):
    """What was written, for whoever goes on with it."""

    tables: dict[str, pd.DataFrame]
    claims: list[Judged]
    page: Path


def build(data: Dataset, out: Path, entries: Sequence[Entry] = (), kinds: Sequence[str] = press.KINDS) -> Report:
    """Write summary, series, tables, figures, claims and the page.

    Parameters
    ----------
    entries
        accepted runs, which the page draws too.
    kinds
        in which figures are written; the page needs "svg".
    """
    out.mkdir(parents=True, exist_ok=True)
    dataset.write(data, out)
    made = convergence.tables(data) | staleness.tables(data) | transmission.tables(data) | scaling.tables(data)
    judged = claims.judge(data)
    claims.write(judged, out)
    made |= {page.HISTORY: history.table(entries)} if entries else {}
    tables.write({"claims": claims.table(judged)} | made, out)
    drawn = figures.all_figures(data)
    with figures.style():
        if (grown := history.figure(entries)) is not None:
            drawn[page.HISTORY] = grown
    figures.write(drawn, out, kinds)
    return Report(made, judged, page.write(data, made, judged, out, history.finding(entries)))
