"""The pages of a report: an index, a page for each workload that was trained, waiting, nodes, messages, claims and method.

Each page is one HTML file with its own style and script. Diagrams, tables and the library that draws are files beside it;
nothing comes from the network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from reports import charts, claims, dataset, escaping, picker, training, waiting, words
from reports.charts import Group
from reports.claims import VERDICTS, Judged
from reports.dataset import Dataset
from reports.front import headline
from reports.messages import Traffic
from reports.nodes import Scaled
from reports.price import Priced
from reports.sessions import sources
from reports.view import TEXTS, Shown, View
from suites.records.limits import BundleError
from suites.statistics.intervals import MINIMUM_FOR_INTERVAL

FOLDER = "pages"
COMMON: dict[str, tuple[str, str]] = {name: (title, about) for name, (title, about) in TEXTS["page"].items()}
"""Pages of several workloads: title and explanation, by name of the file."""


class Page(NamedTuple):
    """What a page of workloads holds."""

    name: str
    """Of its file, without the suffix."""
    title: str
    about: str
    views: Sequence[View]
    groups: list[Group]
    tables: list[Shown]


def pages(data: Dataset) -> Iterator[Page]:
    """Every page of workloads that there is something for.

    Raises
    ------
    BundleError
        when two would be written under one name.
    """
    taken: dict[str, View] = {}
    for view in training.views(data):
        if taken.setdefault(view.slug, view) is not view:
            raise BundleError(f"{view.bundles[0].path}: two pages of the report would be called {view.slug}: report them apart")
        yield Page(view.slug, view.subject, "", [view], view.groups, view.tables)
    found: dict[str, Sequence[View]] = {
        "waiting": [*waiting.Mapped.all(data), *waiting.Ruled.all(data), *Priced.all(data)],
        "nodes": Scaled.all(data),
        "messages": Traffic.all(data),
    }
    for name, views in found.items():
        if views:
            groups, tables = chain(*(view.groups for view in views)), chain(*(view.tables for view in views))
            yield Page(name, *COMMON[name], views, _joined(groups), _stacked(tables))


def _joined(groups: Iterable[Group]) -> list[Group]:
    """Groups of one title as one, with all their diagrams."""
    found: dict[str, Group] = {}
    for one in groups:
        before = found.get(one.title)
        found[one.title] = Group(one.title, one.about, [*(before.panels if before else []), *one.panels])
    return list(found.values())


def _stacked(tables: Iterable[Shown]) -> list[Shown]:
    """Tables of one name as one."""
    found: dict[str, list[Shown]] = {}
    for one in tables:
        found.setdefault(one.name, []).append(one)
    frames = {name: pd.concat([one.frame for one in own], ignore_index=True).fillna("-") for name, own in found.items()}
    return [own[0]._replace(frame=frames[name]) for name, own in found.items()]


def build(data: Dataset, out: Path) -> Path:
    """Write summary, series, claims, tables, diagrams and pages into a folder, and return the index page."""
    out.mkdir(parents=True, exist_ok=True)
    dataset.write(data, out)
    judged, made = claims.judge(data), list(pages(data))
    claims.write(judged, out)
    (out / "tables").mkdir(exist_ok=True)
    frames = {one.name: one.frame for page in made for one in page.tables} | _costs(data)
    for name, frame in frames.items():
        escaping.csv(frame, out / "tables" / f"{name}.csv")
    charts.write({page.name: page.groups for page in made if page.groups}, out)
    (out / FOLDER).mkdir(exist_ok=True)
    told: dict[str, Any] = {"data": data, "common": [page for page in made if page.name in COMMON]}
    for page in made:
        view = page.views[0] if page.name not in COMMON else None
        more: dict[str, Any] = {"page": page, "view": view, "library": charts.LIBRARY, "deviations": _deviations(page)}
        more["sources"] = [one for view in page.views for one in sources(view)]
        _write(out / FOLDER / f"{page.name}.html", "workload.html.j2", root="../", **told, **more)
    failures = [*((b, b.manifest.error) for b in data.bundles if b.manifest.status != "completed"), *data.unusable]
    told["failures"] = failures
    _write(out / "claims.html", "claims.html.j2", claims=judged, **told)
    suites = {b.manifest.suite for b in data.bundles}
    _write(out / "how.html", "how.html.j2", suites=suites, environments=_environments(data), **told)
    _write(out / "index.html", "index.html.j2", pages=made, **_summary(data, judged), **told)
    return out / "index.html"


def _write(path: Path, template: str, root: str = "", **values: Any) -> None:
    path.write_text(words.render(template, root=root, here=path.name, **values), encoding="utf-8")


def _deviations(page: Page) -> dict[str, dict[str, list[str]]]:
    """By view that has any: of each system, in what it deviates from the matched configuration."""
    told = {view.name: view.deviations() for view in page.views if not isinstance(view, Traffic)}
    return {name: found for name, found in told.items() if any(found.values())}


def _summary(data: Dataset, judged: Sequence[Judged]) -> dict[str, Any]:
    """What the first page says."""
    bars, first = picker.bars(data), headline(data)
    return {
        **first._asdict(),
        "bars": bars,
        "chosen": picker.first(bars),
        "costs": picker.told(bars),
        "verdicts": Counter(claim.verdict for claim in judged),
        "marks": VERDICTS,
        "marks_of": sorted({one.mark for answer in first.answers for one in answer.verdicts if one.mark}),
        "emulated": any(b.manifest.testbed == "netns" for b in data.bundles),
        "few": _few_blocks(data),
    }


def _costs(data: Dataset) -> dict[str, pd.DataFrame]:
    """The table of the first page, by name."""
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


REVISION = ("git_commit", "git_dirty")
RANGES = ("load_1min_at_start", "noise_floor", "date")
"""What of an environment differs between runs of one machine, beside the revision: told as a range."""
UNTOLD = "bare_loop"
"""It has two values a run."""


def _environments(data: Dataset) -> list[dict[str, Any]]:
    """Each machine with its software once, with all revisions, and ranges of what else differs between its runs."""
    found: dict[str, list[dict[str, Any]]] = {}
    for environment in (b.manifest.environment for b in data.bundles):
        found.setdefault(repr(_stable(environment)), []).append(environment)
    return [_stable(alike[0]) | {"runs": len(alike)} | _differing(alike) for alike in found.values()]


def _stable(environment: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in environment.items() if key not in (*RANGES, *REVISION, UNTOLD)}


def _differing(alike: Sequence[dict[str, Any]]) -> dict[str, str | None]:
    commits = dict.fromkeys(
        f"{one['git_commit']}{' with changes' * bool(one['git_dirty'])}" for one in alike if one.get("git_commit")
    )
    known = {key: [one[key] for one in alike if one.get(key) is not None] for key in RANGES}
    ranges = {key: f"{min(values)} to {max(values)}" for key, values in known.items() if values}
    return {"git_commit": ", ".join(commits) or None, **ranges}
