"""The README's results: a picture, a table of ratios and the claims, between two marks, made from a dataset.

`nox -s readme` writes them and `docs/report`; with `-- --check` it says whether they are what the bundles say.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from reports import words
from reports.claims import Judged
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.scaling.view import Scaled
from reports.staleness.view import Balanced
from reports.view import View

BEGIN = "<!-- results: made by `nox -s readme` from results/reference; not by hand -->"
END = "<!-- end of results -->"
PICTURE = "ratios.png"
KEPT = ("index.html", "claims.json")
"""Of a report, in `docs/report`."""
SHOWN = 80
"""Characters of a line that is out of date."""


def block(data: Dataset, judged: Sequence[Judged], report: str) -> str:
    """The results as Markdown.

    Parameters
    ----------
    report
        where `docs/report` is, seen from the README.
    """
    told = {one.id: "; ".join(f"{measured} ({reading})" for reading, measured in one.told) for one in judged}
    claims = [(one.says, one.claimed, one.verdict, told[one.id] or f"it would take {one.needs}") for one in judged]
    suites = {suite.suite: lines(data, suite) for suite in (Trained, Balanced, Scaled)}
    place = {"begin": BEGIN, "end": END, "report": report, "picture": PICTURE}
    return words.render("readme.md.j2", data=data, lines=suites, claims=claims, **place)


def lines(data: Dataset, suite: type[View]) -> list[list[str]]:
    """The lines of a table that a suite's template has for a README, of all its views."""
    return [line.split(" | ") for view in suite.all(data) for line in view.words.lines("readme")]


def replaced(readme: str, new: str) -> str:
    """A README with other results.

    Raises
    ------
    ValueError
        where the marks are not there, once each and in order.
    """
    before, found, rest = readme.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended or BEGIN in rest or END in after:
        raise ValueError(f"the README has no place for results: it needs the lines {BEGIN} and {END}, once each")
    return before + new + after


def keep(built: Path, report: Path) -> None:
    """Copy what `docs/report` has of a report."""
    report.mkdir(parents=True, exist_ok=True)
    for name in (*KEPT, PICTURE):
        shutil.copyfile(built / name, report / name)


def stale(built: Path, report: Path) -> str | None:
    """What of `docs/report` is not what the bundles say, in a few words; None: nothing.

    What is written is compared, not what is drawn: another machine's arithmetic places points otherwise.
    """
    for name in (*KEPT, PICTURE):
        if not (report / name).exists():
            return f"{report / name} is missing"
    verdicts = [
        [(c["id"], c["verdict"]) for c in json.loads((folder / "claims.json").read_text(encoding="utf-8"))["claims"]]
        for folder in (report, built)
    ]
    if verdicts[0] != verdicts[1]:
        return f"{report / 'claims.json'} has other verdicts"
    old, new = (_written((folder / "index.html").read_text(encoding="utf-8")) for folder in (report, built))
    for ours, theirs in zip_longest(old, new, fillvalue="nothing"):
        if ours != theirs:
            return f"{report / 'index.html'} has {ours[:SHOWN]!r} where the bundles give {theirs[:SHOWN]!r}"
    return None


def _written(page: str) -> list[str]:
    """Lines of a page without its drawings."""
    return [line.strip() for line in re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL).splitlines()]
