"""The pages of a report: a summary, a page for each workload, the claims, and how it was measured.

Each page is one HTML file with its own style and script. Figures, tables, curves and the library that draws curves are files
beside it; nothing comes from the network.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from reports import curves, figures, picker, sections, words
from reports.claims import MARKS, Judged
from reports.convergence import curves as of_convergence
from reports.convergence.view import Trained
from reports.curves import Panel
from reports.dataset import Dataset
from reports.headline import headline
from reports.scaling import curves as of_scaling
from reports.scaling.deviations import ALL
from reports.scaling.view import Scaled
from reports.sessions import sources
from reports.staleness import curves as of_staleness
from reports.staleness.view import Balanced
from reports.transmission import curves as of_transmission
from reports.transmission.view import Traffic
from reports.view import View
from reports.words import Words
from suites.statistics.intervals import MINIMUM_FOR_INTERVAL

FOLDER = "pages"
POINTS_A_PIXEL = 0.75
COLUMNS = 11
"""Of a table beside its first one, at most: what a screen has room for."""


def write(
    data: Dataset, tables: Mapping[str, pd.DataFrame], judged: Sequence[Judged], out: Path, *, interactive: bool = True
) -> Path:
    """Write every page and return the summary's path; figures must be there already, as SVG.

    Parameters
    ----------
    interactive
        Whether pages get interactive curves, if the library is installed.
    """
    views = list(sections.views(data))
    failures = [*((b, b.manifest.error) for b in data.bundles if b.manifest.status != "completed"), *data.unusable]
    with_curves = curves.write(((view.slug, _panels(view)) for view in views), out) if interactive else set()
    pictures = _pictures(out / "figures")
    (out / FOLDER).mkdir(exist_ok=True)
    for view in views:
        own = [one for one in pictures if one["suite"] == view.suite and view.slug in one["of"]]
        of_view = _of_view(view, tables) | {"figures": own, "interactive": view.slug in with_curves, "library": curves.LIBRARY}
        _write(out / FOLDER / f"{view.slug}.html", "workload.html.j2", root="../", **of_view)
    _write(out / "claims.html", "claims.html.j2", claims=judged)
    method: dict[str, Any] = {"suites": {b.manifest.suite for b in data.bundles}, "environments": _environments(data)}
    _write(out / "how.html", "how.html.j2", data=data, failures=failures, **method)
    path = out / "index.html"
    _write(path, "index.html.j2", data=data, views=views, failures=failures, **_summary(data, judged))
    return path


def _panels(view: View) -> list[Panel]:
    """The interactive curves of a view, by its suite."""
    match view:
        case Trained():
            return of_convergence.panels(view)
        case Balanced():
            return of_staleness.panels(view)
        case Traffic():
            return of_transmission.panels(view)
        case Scaled():
            return of_scaling.panels(view)
        case _:
            return []


def _write(path: Path, template: str, root: str = "", **values: Any) -> None:
    path.write_text(words.render(template, root=root, here=path.name, **values), encoding="utf-8")


def _summary(data: Dataset, judged: Sequence[Judged]) -> dict[str, Any]:
    """What the first page says."""
    bars, first = picker.bars(data), headline(data)
    counts = {verdict: sum(claim.verdict == verdict for claim in judged) for verdict in MARKS}
    return {
        "answers": first.answers,
        "verdict": Words("headline.j2", first).lines("sentences"),
        "loses": Words("headline.j2", first).lines("loses"),
        "bars": bars,
        "chosen": picker.first(bars),
        "costs": picker.told(bars),
        "headlines": sections.headlines(data),
        "verdicts": {verdict: count for verdict, count in counts.items() if count},
        "beside": sum(bool(claim.beside) for claim in judged),
        "emulated": any(b.manifest.testbed == "netns" for b in data.bundles),
        "few": _few_blocks(data),
    }


def tables(data: Dataset) -> dict[str, pd.DataFrame]:
    """The table of the summary, by name."""
    lines = [
        choice._asdict()
        | {
            "system": bar.title,
            "cost": cost,
            "value": value,
            "low": low,
            "high": high,
            "reached": bar.reached,
            "runs": bar.runs,
        }
        for choice, own in picker.bars(data).items()
        for bar in own
        for cost, (value, low, high) in bar.costs.items()
    ]
    return {"costs": pd.DataFrame(lines)} if lines else {}


def _few_blocks(data: Dataset) -> list[str]:
    """Workloads of which there are too few blocks for an interval."""
    blocks = {key: {(b.manifest.session, b.manifest.block) for b in bundles} for key, bundles in data.groups.items()}
    return sorted(View(data, key).name for key, found in blocks.items() if len(found) < MINIMUM_FOR_INTERVAL)


def _of_view(view: View, tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """What the page of one workload holds."""
    found = []
    for kind in view.parts:
        name = f"{view.slug}-{kind}"
        if (frame := tables.get(name)) is not None:
            title, caption, *_ = view.words.lines(f"table_{kind}")
            found.append({"frames": _fitting(frame), "title": title, "caption": caption, "name": name})
    return {
        "view": view,
        "tables": found,
        "deviations": view.deviations(),
        "all_systems": ALL,
        "sources": sources(view),
    }


def _fitting(frame: pd.DataFrame) -> list[pd.DataFrame]:
    """A table, or parts of it that fit on a screen, each with the first column."""
    count = len(frame.columns) - 1
    parts = max(1, -(-count // COLUMNS))
    ends = [1 + round(count * part / parts) for part in range(parts + 1)]
    return [frame.iloc[:, [0, *range(first, last)]] for first, last in itertools.pairwise(ends)]


def _pictures(folder: Path) -> list[dict[str, Any]]:
    """The figures of all suites, each with its size."""
    return [one | _size(folder / f"{one['name']}.svg") for one in figures.read(folder)]


def _size(svg: Path) -> dict[str, int]:
    """Width and height in pixels, so that a page keeps the room for a figure that is loaded later."""
    head = svg.read_text(encoding="utf-8")[:2000]
    found = {name: re.search(rf'<svg[^>]*\b{name}="([\d.]+)pt"', head) for name in ("width", "height")}
    return {name: round(float(size[1]) / POINTS_A_PIXEL) for name, size in found.items() if size}


REVISION = ("git_commit", "git_dirty")
RANGES = ("load_1min_at_start", "noise_floor", "date")
"""What of an environment differs between runs of one machine, beside the revision: told as a range."""


def _environments(data: Dataset) -> list[dict[str, Any]]:
    """Each machine with its software once, and what differs between its runs."""
    found: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for environment in (b.manifest.environment for b in data.bundles):
        stable = {key: value for key, value in environment.items() if key not in (*RANGES, *REVISION)}
        found.setdefault(repr(stable), (stable, []))[1].append(environment)
    return [stable | {"runs": len(alike)} | _differing(alike) for stable, alike in found.values()]


def _differing(alike: Sequence[dict[str, Any]]) -> dict[str, str | None]:
    """All revisions, and ranges of the rest."""
    commits = dict.fromkeys(
        f"{one['git_commit']}{' with changes' * bool(one['git_dirty'])}" for one in alike if one.get("git_commit")
    )
    known = {key: [one[key] for one in alike if one.get(key) is not None] for key in RANGES}
    ranges = {key: f"{min(values)} to {max(values)}" for key, values in known.items() if values}
    return {"git_commit": ", ".join(commits) or None, **ranges}
