"""One self-contained HTML page: a script of its own to filter and sort, no file beside it, nothing fetched."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from reports import sections, words
from reports.claims import Judged
from reports.convergence.standings import standings
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.scaling.deviations import ALL
from reports.view import View
from suites.statistics.intervals import MINIMUM_FOR_INTERVAL


def write(data: Dataset, tables: Mapping[str, pd.DataFrame], judged: Sequence[Judged], out: Path) -> Path:
    """Write `index.html`; the figures must be there already, as SVG."""
    failed = [(b, b.manifest.error) for b in data.bundles if b.manifest.status != "completed"]
    text = words.render(
        "page.html.j2",
        data=data,
        standings=standings(data),
        comparisons=[line for view in Trained.all(data) for line in view.words.lines("headlines")],
        headlines=sections.headlines(data),
        claims=judged,
        systems=sorted({b.manifest.system_title for b in data.bundles if not b.manifest.replica}),
        few=_few_blocks(data),
        failures=[*failed, *data.unusable],
        sections=[_section(view, tables, out) for view in sections.views(data)],
        suites={b.manifest.suite for b in data.bundles},
        environments=_environments(data),
        all_systems=ALL,
    )
    path = out / "index.html"
    path.write_text(text, encoding="utf-8")
    return path


def _few_blocks(data: Dataset) -> list[str]:
    """Workloads of which there are too few blocks for an interval."""
    blocks = {key: {(b.manifest.session, b.manifest.block) for b in bundles} for key, bundles in data.groups.items()}
    return sorted(View(data, key).name for key, found in blocks.items() if len(found) < MINIMUM_FOR_INTERVAL)


def _section(view: View, tables: Mapping[str, pd.DataFrame], out: Path) -> dict[str, Any]:
    """What the page says of one view: tables and figures that there are, in the order of reading.

    What was found stands in the alternative text of figures, for those who do not see them.
    """
    parts: list[dict[str, Any]] = []
    for kind in view.parts:
        name = f"{view.slug}-{kind}"
        if (table := tables.get(name)) is not None:
            title, caption, *_ = view.words.lines(f"table_{kind}")
            parts.append({"table": table.to_html(index=False, border=0), "title": title, "caption": caption})
        if (svg := out / "figures" / f"{name}.svg").exists():
            caption = view.words.say(f"figure_{kind}")
            alt = " ".join([caption, *view.findings[:2]])
            parts.append({"svg": _inline(svg.read_text(encoding="utf-8"), name, alt), "caption": caption})
    return {
        "id": view.slug,
        "title": view.words.say("title"),
        "text": view.words.say("about"),
        "findings": view.findings,
        "parts": parts,
        "deviations": view.deviations(),
    }


def _inline(svg: str, prefix: str, alt: str) -> str:
    """An SVG as part of a page, smaller; its ids get a prefix of their own, so that two drawings do not share one.

    Parameters
    ----------
    alt
        what it shows, in words.
    """
    # In tags alone, for numbers that are read are text: a hundredth of a point is nothing that anybody sees.
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), svg)
    svg = re.sub(r"\s*\n\s*", " ", svg)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # Nothing refers to groups.
    svg = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{html.escape(alt)}"', 1)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'(xlink:href|href)="#', rf'\1="#{prefix}-', svg)
    return svg.replace("url(#", f"url(#{prefix}-")


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
