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
from reports.pairs import PEER, REFERENCE, RELAXED
from reports.scaling.view import Scaled
from reports.staleness.view import Balanced
from reports.tables import with_interval
from suites.statistics.crossings import KINDS
from suites.statistics.summary import AGAIN

BEGIN = "<!-- results: made by `nox -s readme` from results/reference; not by hand -->"
END = "<!-- end of results -->"
PICTURE = "ratios.png"
KEPT = ("index.html", "claims.json")
"""Of a report, in `docs/report`."""
SHOWN = 80
"""Characters of a line that is out of date."""

Line = tuple[str, ...]


def block(data: Dataset, judged: Sequence[Judged], report: str) -> str:
    """The results as Markdown.

    Parameters
    ----------
    report
        where `docs/report` is, seen from the README.
    """
    return words.render(
        "readme.md.j2",
        begin=BEGIN,
        end=END,
        report=report,
        picture=PICTURE,
        data=data,
        ratios=ratios(data),
        gains=relaxed(data),
        nodes=on_nodes(data),
        claims=[claim(one) for one in judged],
    )


def ratios(data: Dataset) -> list[Line]:
    """Of times to either threshold, TianJi against every peer: strict, and relaxed where that was measured."""
    return [
        (view.name, discipline if view.description["algo"] == "ppo" else "-", name, *told, counts)
        for view in Trained.all(data)
        for ours, discipline in ((REFERENCE, "strict"), (RELAXED, "relaxed"))
        for peer in (*(label for label in view.peers if label != ours), f"{ours}{AGAIN}")
        if (counts := view.blocks((ours, peer)))
        for name in ["itself (noise floor)" if peer.endswith(AGAIN) else view.title(peer)]
        for told in [[view.fast(ours, peer, kind).words for kind in KINDS]]
    ]


def relaxed(data: Dataset) -> list[Line]:
    """Relaxed TianJi against strict, a line a workload of the staleness suite."""
    columns = ["Ratio of steps/s", "Ratio of steps, evaluated", "Ratio of steps, training", "Times as fast, evaluated", "n"]
    return [
        (view.name, *map(str, view.frame("balance").set_index("System").loc[view.title(RELAXED), columns]))
        for view in Balanced.all(data)
        if RELAXED in view.shown
    ]


def on_nodes(data: Dataset) -> list[Line]:
    """TianJi on the largest number of nodes of each experiment."""
    lines: list[Line] = []
    for view in Scaled.all(data):
        most = view.most
        over = view.over("unique_consumption_ratio", PEER, most)
        told = (view.speedup(REFERENCE, most), view.share(REFERENCE, most), over)
        if most > 1 and any(told):
            lines.append((view.words.say("title"), str(most), *(with_interval(row, "x") for row in told)))
    return lines


def claim(one: Judged) -> Line:
    """A line of the ledger."""
    measured = "; ".join(f"{measured} ({reading})" for reading, measured in one.told)
    return one.says, one.claimed, one.verdict, measured or f"it would take {one.needs}"


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
