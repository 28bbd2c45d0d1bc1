"""What `nox -s readme` writes between two marks: the README's first screen, and the tables and claims of docs/results.md.

It writes `docs/report` too; with `-- --check` it says whether all of them are what the bundles say.
"""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path

import matplotlib.pyplot as plt

from reports import words
from reports.asynchrony.figures import pays
from reports.asynchrony.view import Mapped
from reports.claims import Judged
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.headline import headline
from reports.overview import USUAL, found, overview
from reports.picture import FILES, MAP_CELLS, MAP_FILES, SUBTITLE, TITLE, WIDTH_PX
from reports.scaling.view import Scaled
from reports.staleness.view import Balanced
from reports.styles import PAGE
from reports.view import View

BEGIN = "<!-- results: made by `nox -s readme` from results/reference; not by hand -->"
END = "<!-- end of results -->"
KEPT = ("claims.json", "*.html", "pages/*.html", "figures/*.svg", "tables/*.csv")
"""Files of a report in `docs/report`, beside the picture's. There are no interactive curves: their library is too large."""
SIZE = re.compile(r' (width|height)="\d+"')
"""Of a figure, which another machine's fonts change."""
SHOWN = 80
"""Characters of a line that is out of date."""


def front(data: Dataset, report: str) -> str:
    """The README's first screen as Markdown: who wins, by how much, why, and where TianJi loses.

    Parameters
    ----------
    report
        path of `docs/report` from the README.
    """
    place = {"begin": BEGIN, "end": END, "report": report}
    return words.render(
        "readme.md.j2", data=data, h=headline(data), picture=picture(data, report), pays=relaxing(data, report), **place
    )


def picture(data: Dataset, report: str) -> str:
    """The README's picture as HTML, which Markdown takes as it is: light or dark as the reader's page.

    Its alternative text says what was found.
    """
    return _shown(report, list(FILES), " ".join([TITLE + ".", SUBTITLE + ".", *found(overview(data))]))


def relaxing(data: Dataset, report: str) -> str:
    """When relaxing dependencies pays: sentences, and the map as a picture; empty where there is none."""
    views = Mapped.all(data)
    with PAGE.applied():
        drawn = pays(views, PAGE, MAP_CELLS)
    if drawn is None:
        return ""
    plt.close(drawn.figure)
    says = [line for view in views for line in view.words.lines("front")]
    caption = words.Words("asynchrony.j2", None).say("figure_map", views, drawn.n)
    return _paragraphs([*says, _shown(report, list(MAP_FILES), caption)])


def _paragraphs(lines: Sequence[str]) -> str:
    """Lines as paragraphs; the points of a list follow each other without a blank line."""
    ends = ["\n" if one.startswith("- ") and other.startswith("- ") else "\n\n" for one, other in pairwise(lines)]
    return "".join(line + end for line, end in zip(lines, [*ends, ""], strict=True))


def _shown(report: str, files: Sequence[str], said: str) -> str:
    """An image, of the file for light pages and of that for dark ones."""
    light, dark = files
    alt = html.escape(" ".join(said.split()))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{report}/{dark}">'
        f'<img src="{report}/{light}" width="{WIDTH_PX}" alt="{alt}"></picture>'
    )


def tables(data: Dataset, judged: Sequence[Judged], report: str) -> str:
    """The tables of results and claims as Markdown.

    Parameters
    ----------
    report
        path of `docs/report` from the page that holds the tables.
    """
    told = {one.id: "; ".join(f"{measured} ({reading})" for reading, measured in one.told) for one in judged}
    claims = [(one.says, one.claimed, one.said, told[one.id] or f"it would take {one.needs}") for one in judged]
    suites = {suite.suite: lines(data, suite) for suite in (Balanced, Mapped, Scaled)}
    # Divisions are never in one table.
    suites[Trained.suite] = lines(data, Trained, _usual)
    suites["open"] = lines(data, Trained, lambda view: not _usual(view))
    chosen = [(view.name, view.title(label), said) for view in Trained.all(data) for label, said in view.chosen.items()]
    return words.render(
        "results.md.j2", data=data, lines=suites, chosen=chosen, claims=claims, begin=BEGIN, end=END, report=report
    )


def lines(data: Dataset, suite: type[View], wanted: Callable[[View], bool] = lambda view: True) -> list[list[str]]:
    """The lines of a table that a suite's template has for a README, of all its views that are wanted."""
    return [line.split(" | ") for view in suite.all(data) if wanted(view) for line in view.words.lines("readme")]


def _usual(view: View) -> bool:
    """Whether its runs are of the closed division, with the settings that each adapter makes of the workload."""
    m = view.bundles[0].manifest
    return m.division == USUAL and not m.tuned


def replaced(page: str, new: str) -> str:
    """A page with other results.

    Raises
    ------
    ValueError
        where the marks are not there, once each and in order.
    """
    before, found, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended or BEGIN in rest or END in after:
        raise ValueError(f"has no place for results: it needs the lines {BEGIN} and {END}, once each")
    return before + new + after


def keep(built: Path, report: Path) -> str | None:
    """Copy what `docs/report` has of a report. Nothing is removed there: what is left over is returned in words."""
    for name in sorted(kept(built)):
        (report / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".svg"):
            (report / name).write_text(slim((built / name).read_text(encoding="utf-8")), encoding="utf-8")
        else:
            shutil.copyfile(built / name, report / name)
    return left_over(report, kept(report) - kept(built))


def left_over(report: Path, names: Iterable[str]) -> str | None:
    """What is to be removed from a report's folder, in words; None: nothing."""
    files = [str(report / name) for name in sorted(names)]
    return (
        f"{', '.join(files)} {'is left over: remove it' if len(files) == 1 else 'are left over: remove them'}"
        if files
        else None
    )


def kept(folder: Path) -> set[str]:
    """Names of a report's files that `docs/report` has."""
    return {file.relative_to(folder).as_posix() for name in (*KEPT, *FILES, *MAP_FILES) for file in folder.glob(name)}


def slim(svg: str) -> str:
    """A drawing with coordinates to a hundredth of a point and paths to a tenth; numbers in its text are results and stay."""

    def shorter(tag: re.Match[str]) -> str:
        places = re.sub(r"(\.\d\d)\d+", r"\1", tag[0])
        return re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d)\d+", r"\1", path[0]), places)

    return re.sub(r"\s*\n\s*", "\n", re.sub(r"<[^>]*>", shorter, svg))


def stale(built: Path, report: Path, pictures: Iterable[str]) -> str | None:
    """What of `docs/report` is not what the bundles say, in a few words; None: nothing. `pictures` are not drawn for it.

    What is written is compared, not what is drawn: another machine's arithmetic places points otherwise.
    """
    there, wanted = kept(report), kept(built) | set(pictures)
    for name in sorted(wanted - there):
        return f"{report / name} is missing"
    if (more := left_over(report, there - wanted)) is not None:
        return more
    verdicts = [
        [(c["id"], c["verdict"]) for c in json.loads((folder / "claims.json").read_text(encoding="utf-8"))["claims"]]
        for folder in (report, built)
    ]
    if verdicts[0] != verdicts[1]:
        return f"{report / 'claims.json'} has other verdicts"
    for page in sorted(name for name in wanted if name.endswith(".html")):
        old, new = (_written((folder / page).read_text(encoding="utf-8")) for folder in (report, built))
        for ours, theirs in zip_longest(old, new, fillvalue="nothing"):
            if ours != theirs:
                return f"{report / page} has {ours[:SHOWN]!r} where the bundles give {theirs[:SHOWN]!r}"
    return None


def _written(page: str) -> list[str]:
    """Lines of a page without the sizes of its figures."""
    return [line.strip() for line in SIZE.sub("", page).splitlines()]
