"""One self-contained HTML page: a script of its own to filter and sort, no file beside it, nothing fetched."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import msgspec
import pandas as pd

from reports import staleness
from reports.claims import Judged
from reports.convergence import text as convergence
from reports.convergence import verdict
from reports.dataset import Dataset
from reports.scaling import text as scaling
from reports.scaling.deviations import ALL, deviations
from reports.scaling.lookup import Scaled, settings
from reports.transmission import text as transmission
from suites.records.bundle import Bundle
from suites.statistics.intervals import MINIMUM_FOR_INTERVAL
from suites.statistics.summary import AGAIN, label_of

STOPPED = (
    " Runs ended soon after their training return was reached, and judging where a crossing was confirmed: what would have "
    "come later is not known."
)
"""What is said of runs that stop at their goal."""
HISTORY = "history-runs"
"""The name of its figure and table."""
HISTORY_TEXTS = {"runs": ("Accepted runs", "Values of TianJi; a series is one workload on one machine.")}
HISTORY_CAPTIONS = {
    "runs": "Values of TianJi over accepted runs, bars: 95 % intervals. A line ends where workload or machine change."
}


def headlines(data: Dataset) -> list[str]:
    """What came of staleness, transmission and scaling, in a sentence each, for the page and the terminal."""
    lines = []
    for workload in sorted(data.balanced):
        lines += [f"{workload}: {line}" for line in staleness.findings(data, workload)[:1]]
    return lines + transmission.headlines(data) + scaling.headlines(data)


def write(
    data: Dataset, tables: dict[str, pd.DataFrame], judged: Sequence[Judged], out: Path, grown: Sequence[str] = ()
) -> Path:
    """Write `index.html`; the figures must be there already, as SVG.

    Parameters
    ----------
    grown
        what the history of accepted runs says; empty: there is none.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    found = verdict.matrix(data)
    page = environment.get_template("page.html.j2").render(
        bundles=len(data.bundles),
        machine=data.machines,
        headlines=headlines(data),
        verdicts=found,
        fastest=verdict.sentences(found),
        meaning=verdict.MEANING,
        comparisons=convergence.headlines(data),
        claims=[msgspec.structs.asdict(claim) for claim in judged],
        systems=sorted({title for label, title in data.titles.items() if not label.endswith(AGAIN)}),
        few=_few_blocks(data),
        left_out=data.left_out,
        failures=[{"title": _run_title(b), "error": b.manifest.error} for b in data.bundles if b.manifest.status != "completed"]
        + [{"title": _run_title(b), "error": reason} for b, reason in data.unusable],
        workloads=[_workload(data, tables, out, name) for name in sorted(data.workloads)]
        + [_balance(data, tables, out, name) for name in sorted(data.balanced)]
        + [_traffic(data, tables, out, name) for name in sorted(data.traffic)]
        + [_scaling(Scaled(data, setting), tables, out) for setting in settings(data)],
        history=_parts(tables, out, "history", ("runs",), HISTORY_TEXTS, HISTORY_CAPTIONS, grown),
        grown=grown,
        trained=bool(data.workloads or data.balanced),
        moved=bool(data.traffic),
        scaled=bool(data.scaled),
        environments=_environments(data),
        all_systems=ALL,
    )
    path = out / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


def _run_title(b: Bundle) -> str:
    m = b.manifest
    where = "" if m.scaling is None else f" on {m.nodes} node{'s' * (m.nodes > 1)}, {m.scaling} scaling"
    return f"{m.workload}{where}, block {m.block}: {m.system_title}"


def _few_blocks(data: Dataset) -> list[str]:
    """Workloads of which there are too few blocks for an interval."""
    blocks: dict[tuple[str, str], set[tuple[str, int]]] = {}
    for m in (b.manifest for b in data.bundles):
        blocks.setdefault((m.suite, m.workload), set()).add((m.session, m.block))
    return sorted(workload for (_, workload), found in blocks.items() if len(found) < MINIMUM_FOR_INTERVAL)


def _workload(data: Dataset, tables: dict[str, pd.DataFrame], out: Path, name: str) -> dict[str, Any]:
    w = data.workloads[name]
    kinds = ("ratios", "threshold", "curves", "time", "resources", "certificate")
    manifests = [b.manifest for b in data.bundles if (b.manifest.suite, b.manifest.workload) == ("convergence", name)]
    seeds = sorted({m.seed for m in manifests})
    judging = w["evaluation"]
    text = (
        f"{w['env']} with {w['algo'].upper()}: {_algorithm(w)}; budget {w['budget_steps']:,} steps; "
        f"thresholds {w['thresholds']['training']:g} (training) and {w['thresholds']['evaluated']:g} (evaluated); "
        f"seeds {', '.join(map(str, seeds))}. Snapshots are played on {judging['episodes']} episodes each; "
        f"{judging['in_a_row']} in a row at or above the threshold are a crossing."
        + STOPPED
        * any(m.configuration.get("stop_at_goal", False) for m in manifests)
    )
    findings = convergence.findings(data, name)
    parts = _parts(tables, out, name, kinds, convergence.TABLE_TEXTS, convergence.CAPTIONS, findings)
    return {
        "id": name,
        "title": w["title"],
        "text": text,
        "findings": findings,
        "parts": parts,
        "deviations": _deviations(data, name),
    }


def _balance(data: Dataset, tables: dict[str, pd.DataFrame], out: Path, name: str) -> dict[str, Any]:
    w = data.balanced[name]
    text = (
        f"{w['env']} with {w['algo'].upper()}: {_algorithm(w)}; budget {w['budget_steps']:,} steps. The same training with the "
        "balance of production and consumption on both sides, on one, and off."
    )
    slug, findings = f"{staleness.PREFIX}{name}", staleness.findings(data, name)
    parts = _parts(tables, out, slug, ("balance", "waiting", "lag"), staleness.TABLE_TEXTS, staleness.CAPTIONS, findings)
    title = f"Staleness and balance: {w['title']}"
    deviations = _deviations(data, name, staleness.SUITE)
    return {"id": slug, "title": title, "text": text, "findings": findings, "parts": parts, "deviations": deviations}


def _traffic(data: Dataset, tables: dict[str, pd.DataFrame], out: Path, name: str) -> dict[str, Any]:
    description = data.traffic[name]
    kinds = ("size", "explorers", "share", "latency", "ratio", "room", "goodput", "cost")
    findings = transmission.findings(data, name)
    parts = _parts(tables, out, name, kinds, transmission.TABLE_TEXTS, transmission.CAPTIONS, findings)
    return {
        "id": name,
        "title": description["title"],
        "text": transmission.text(description, data.extents[name]),
        "findings": findings,
        "parts": parts,
        "deviations": [],
    }


def _scaling(scaled: Scaled, tables: dict[str, pd.DataFrame], out: Path) -> dict[str, Any]:
    findings = scaling.findings(scaled)
    parts = _parts(tables, out, scaled.name, scaling.PARTS, scaling.TABLE_TEXTS, scaling.captions(scaled), findings)
    return {
        "id": scaled.name,
        "title": scaling.title(scaled),
        "text": scaling.text(scaled),
        "findings": findings,
        "parts": parts,
        "deviations": deviations(scaled),
    }


def _parts(
    tables: dict[str, pd.DataFrame],
    out: Path,
    workload: str,
    kinds: Sequence[str],
    table_texts: dict[str, tuple[str, str]],
    captions: dict[str, str],
    findings: Sequence[str],
) -> list[dict[str, Any]]:
    """Tables and figures of a workload that there are, in the order of their kinds.

    Parameters
    ----------
    findings
        what the figures show, for those who do not see them.
    """
    parts: list[dict[str, Any]] = []
    for kind in kinds:
        svg = out / "figures" / f"{workload}-{kind}.svg"
        table = tables.get(f"{workload}-{kind}")
        if table is not None:
            title, caption = table_texts[kind]
            parts.append({"svg": None, "table": table.to_html(index=False, border=0), "title": title, "caption": caption})
        if svg.exists():
            alt = " ".join([captions[kind], *findings[:2]])
            parts.append(
                {"svg": _inline(svg.read_text(encoding="utf-8"), f"{workload}-{kind}", alt), "caption": captions[kind]}
            )
    return parts


def _algorithm(w: dict[str, Any]) -> str:
    """What a reader needs to know of the update round."""
    n = w["environments"]
    if w["algo"] == "dqn":
        dqn = w["dqn"]
        return (
            f"{n} environment{'s' * (n > 1)}, {dqn['train_every_steps']} steps a round, then {dqn['updates']} updates of "
            f"{dqn['batch_size']} from a replay of {dqn['replay_capacity']:,}"
        )
    if w["algo"] == "impala":
        return f"{n} environments, {w['impala']['rollout_steps']} steps of each a round, one update"
    ppo = w["ppo"]
    return (
        f"{n} environments, {ppo['rollout_steps']} steps of each a round, minibatches of {ppo['minibatch_size']}, "
        f"{ppo['epochs']} epochs"
    )


def _deviations(data: Dataset, workload: str, suite: str = "convergence") -> list[dict[str, Any]]:
    found: dict[str, list[str]] = {}
    for b in data.bundles:
        if (b.manifest.suite, b.manifest.workload) == (suite, workload) and not b.manifest.replica:
            found.setdefault(label_of(b), b.manifest.deviations)
    labels = data.systems if suite == "convergence" else sorted(found)
    return [{"system": data.titles[label], "lines": found[label]} for label in labels if label in found]


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


def _environments(data: Dataset) -> list[list[tuple[str, str]]]:
    """Each machine with its software once; what differs between its runs, revision and load, as all of them and as a range."""
    load, revisions = "load_1min_at_start", ("git_commit", "git_dirty")
    found: dict[str, list[dict[str, Any]]] = {}
    for environment in (b.manifest.environment for b in data.bundles):
        stable = {key: value for key, value in environment.items() if key not in (load, *revisions)}
        found.setdefault(repr(stable), []).append(environment)
    described = []
    for alike in found.values():
        stable = {key: value for key, value in alike[0].items() if key not in (load, *revisions)}
        commits = dict.fromkeys(
            f"{one['git_commit']}{' with changes' * bool(one['git_dirty'])}" for one in alike if one.get("git_commit")
        )
        loads = [one[load] for one in alike]
        more = {"runs": len(alike), "git_commit": ", ".join(commits) or None, load: f"{min(loads)} to {max(loads)}"}
        described.append(_described(stable | more))
    return described


def _described(environment: dict[str, Any]) -> list[tuple[str, str]]:
    items = []
    for key, value in environment.items():
        if key == "packages":
            value = ", ".join(f"{name} {version}" for name, version in value.items())
        elif key == "memory_bytes":
            key, value = "memory", f"{value / 2**30:.1f} GiB"
        items.append((key.replace("_", " "), "none" if value is None else str(value)))
    return items
