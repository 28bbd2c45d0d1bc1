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
from reports.view import View, title_of
from suites.records.bundle import Bundle
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
        systems=sorted({title_of(b) for b in data.bundles if not b.manifest.replica}),
        few=_few_blocks(data),
        failures=[{"title": _run_title(b), "error": error} for b, error in (*failed, *data.unusable)],
        sections=[_section(view, tables, out) for view in sections.views(data)],
        suites={b.manifest.suite for b in data.bundles},
        environments=_environments(data),
        all_systems=ALL,
    )
    path = out / "index.html"
    path.write_text(text, encoding="utf-8")
    return path


def _run_title(b: Bundle) -> str:
    m = b.manifest
    where = "" if m.scaling is None else f" on {m.nodes} node{'s' * (m.nodes > 1)}, {m.scaling} scaling"
    return f"{m.workload}{where}, block {m.block}: {m.system_title}"


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


LOAD, REVISIONS = "load_1min_at_start", ("git_commit", "git_dirty")
VARYING = (LOAD, "noise_floor", "date")
"""What of an environment differs between runs of one machine, beside the revision."""


def _environments(data: Dataset) -> list[list[tuple[str, str]]]:
    """Each machine with its software once; what differs between its runs, revision and load, as all of them and as a range."""
    found: dict[str, list[dict[str, Any]]] = {}
    for environment in (b.manifest.environment for b in data.bundles):
        found.setdefault(repr(_stable(environment)), []).append(environment)
    described = []
    for alike in found.values():
        commits = dict.fromkeys(
            f"{one['git_commit']}{' with changes' * bool(one['git_dirty'])}" for one in alike if one.get("git_commit")
        )
        more = {"runs": len(alike), "git_commit": ", ".join(commits) or None}
        for key in VARYING:
            # Earlier revisions did not record all of these.
            if values := [one[key] for one in alike if one.get(key) is not None]:
                more[key] = f"{min(values)} to {max(values)}"
        described.append([_described(key, value) for key, value in (_stable(alike[0]) | more).items()])
    return described


def _stable(environment: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in environment.items() if key not in (*VARYING, *REVISIONS)}


def _described(key: str, value: Any) -> tuple[str, str]:
    """A line of an environment as a reader should see it."""
    if key == "packages":
        value = ", ".join(f"{name} {version}" for name, version in value.items())
    elif key == "memory_bytes":
        key, value = "memory", f"{value / 2**30:.1f} GiB"
    return key.replace("_", " "), "none" if value is None else str(value)
