"""What figures and tables are drawn from: what `summary.json` and `series/*.csv` hold, and what the bundles are called."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from suites.convergence import analysis
from suites.records import bundle, machine, store
from suites.records.bundle import Bundle
from suites.scaling import analysis as scaling
from suites.scaling import ratios
from suites.scaling.analysis import COPIES, Setting
from suites.staleness import analysis as staleness
from suites.statistics.summary import AGAIN, label_of
from suites.transmission import analysis as transmission

SCHEMA = "tianji-bench/summary/1"
REFERENCE, RELAXED, SYNCHRONOUS = "tianji", "tianji-relaxed", "sync"
SAME_CODE = ("xingtian",)
"""Peers made of the same code as the reference: what they differ by is discipline, not engineering."""
CURVE_POINTS = 400
"""Rows kept of one learning curve: more than a figure can show."""

NODE_SYSTEMS = ("tianji", "tianji-one-learner", "tianji-curve", "xingtian", "rllib", "rllib-multi-learner")
"""Of the scaling suite, in the order of reading: a ratio of two has the earlier one on top."""
ORDER = ("tianji", "tianji-relaxed", "sync", "sync-again", "xingtian", "rllib", "sb3")


@dataclass
class Dataset:
    """Everything that a report says."""

    rows: list[dict[str, Any]]
    series: dict[str, pd.DataFrame]
    """By file name without suffix."""
    titles: dict[str, str]
    """System label to what a reader should see; for the suites of `OWN_TITLES`, the suite's name, a colon and the label."""
    workloads: dict[str, dict[str, Any]]
    """Of the convergence suite."""
    balanced: dict[str, dict[str, Any]]
    """Of the staleness suite."""
    traffic: dict[str, dict[str, Any]]
    """Workloads of the transmission suite."""
    extents: dict[str, list[dict[str, Any]]]
    """Which sizes and numbers of explorers were asked for, by workload of that suite."""
    scaled: dict[Setting, dict[str, Any]]
    """Settings of the scaling suite: `workload` and `regime`, `environments` by number of nodes, and what of the workload
    `varies` with it."""
    unusable: list[tuple[Bundle, str]]
    """Completed bundles of that suite from which no throughput is to be had, and why."""
    bundles: list[Bundle]
    left_out: list[str]
    """What was read and is not counted, in words."""

    @property
    def systems(self) -> list[str]:
        """Labels of all that ran in the convergence suite, the reference first."""
        return self.ran(*{b.manifest.workload for b in self.bundles})

    def ran(self, *workloads: str) -> list[str]:
        """Labels of those that ran on any of these workloads in the convergence suite, the reference first."""
        runs = (b for b in self.bundles if b.manifest.suite == "convergence" and b.manifest.workload in workloads)
        labels = {label_of(b) for b in runs}
        return sorted(labels, key=lambda label: (ORDER.index(label) if label in ORDER else len(ORDER), label))

    @property
    def machines(self) -> str:
        """What to call the machines of all runs."""
        return "; ".join(sorted({machine.name(b.manifest.environment) for b in self.bundles}))

    def find(
        self,
        workload: str,
        system: str,
        metric: str,
        kind: str | None = None,
        baseline: str | None = None,
        suite: str = "convergence",
    ) -> dict[str, Any] | None:
        """The row of this scalar, or None."""
        for row in self.rows:
            key = (row["suite"], row["workload"], row["system"], row["metric"], row["threshold_kind"], row["baseline"])
            if key == (suite, workload, system, metric, kind, baseline):
                return row
        return None


def pairs_of(labels: Iterable[str]) -> list[tuple[str, str]]:
    """(faster, slower) pairs to report: the reference, its relaxed form and the same-code synchronous system against every
    peer, the first two against the latter, and systems against themselves."""
    labels = set(labels)
    peers = sorted(label for label in labels - {REFERENCE, SYNCHRONOUS} if not label.endswith(AGAIN))
    pairs = [(REFERENCE, SYNCHRONOUS)]
    for peer in peers:
        pairs += [(REFERENCE, peer), (SYNCHRONOUS, peer)]
    pairs += [(RELAXED, peer) for peer in (SYNCHRONOUS, *peers) if peer != RELAXED]
    # What XingTian's makers claimed.
    pairs += [("xingtian", "rllib")]
    pairs += [(label.removesuffix(AGAIN), label) for label in sorted(labels) if label.endswith(AGAIN)]
    return [pair for pair in pairs if labels.issuperset(pair)]


def load(roots: list[Path]) -> Dataset:
    """Read every bundle under these folders and compute what they say.

    Raises
    ------
    suites.records.bundle.BundleError
        for a folder without bundles, for the first bundle that breaks the schema, and for a workload that was measured on
        several machines.
    """
    loaded = store.load(roots)
    bundles, left_out = without_smoke(loaded.bundles)
    _one_machine_each(bundles)
    completed = [b for b in bundles if b.manifest.status == "completed"]
    training = [b for b in completed if b.manifest.suite == "convergence"]
    balanced = [b for b in completed if b.manifest.suite == "staleness"]
    moving = [b for b in completed if b.manifest.suite == "transmission"]
    scaled_runs, unusable = _understand_scaling([b for b in completed if b.manifest.suite == scaling.SUITE])
    try:
        runs = [analysis.understand(b) for b in training]
        balanced_runs = [analysis.understand(b) for b in balanced]
        laws = ratios.fit_laws(scaled_runs)
        scaled_rows = ratios.summarise(scaled_runs, pairs_of_node_systems, laws)
    except (ValueError, KeyError) as error:
        raise bundle.BundleError(str(error)) from error
    labels = {run.label for run in runs}
    series = {
        "curves-training": thin(analysis.curves(runs, "training")),
        "curves-evaluated": thin(analysis.curves(runs, "evaluated")),
        "crossings": analysis.crossing_points(runs),
        "time-shares": analysis.time_shares(runs),
        "certificate": certificate_rows(loaded.certificates),
        "staleness": staleness.distributions(balanced),
        "staleness-crossings": analysis.crossing_points(balanced_runs),
        "transfers": transmission.transfers(moving),
        "delays": transmission.delays(moving),
        "scaling-points": scaling.run_points(scaled_runs),
        "scaling-nodes": scaling.node_points(scaled_runs),
        "scaling-checks": scaling.check_points(run.bundle for run in scaled_runs),
        "scaling-crossings": scaling.crossing_points(scaled_runs),
        "scaling-laws": ratios.law_points(laws),
        "scaling-curves": ratios.curves(scaled_rows, laws),
    }
    traffic = _descriptions(bundles, "transmission")
    ceilings = {workload: description["ceiling"] for workload, description in traffic.items()}
    places = {b.manifest.workload: {"testbed": b.manifest.testbed, "nodes": b.manifest.nodes} for b in moving}
    rows = analysis.summarise(runs, pairs_of(labels))
    against = [(REFERENCE, run.label) for run in balanced_runs if run.label != REFERENCE]
    rows += [row | {"suite": "staleness"} for row in analysis.summarise(balanced_runs, sorted(set(against)))]
    rows += staleness.summarise(balanced)
    rows += transmission.summarise(
        series["transfers"], places, lambda workload, found: pairs_of_pipes(found, ceilings[workload])
    )
    rows += scaled_rows
    extents: dict[str, list[dict[str, Any]]] = {}
    for manifest in (b.manifest for b in bundles if b.manifest.suite == "transmission"):
        known = extents.setdefault(manifest.workload, [])
        if (extent := manifest.configuration["extent"]) not in known:
            known.append(extent)
    return Dataset(
        rows=rows,
        series=series,
        titles={_title_key(b): _title(b) for b in bundles},
        workloads=_descriptions(bundles, "convergence"),
        balanced=_descriptions(bundles, "staleness"),
        traffic=traffic,
        extents=extents,
        scaled=_settings(run.bundle for run in scaled_runs),
        unusable=unusable,
        bundles=bundles,
        left_out=left_out,
    )


def without_smoke(bundles: list[Bundle]) -> tuple[list[Bundle], list[str]]:
    """What may be pooled, and what is left out, in words: runs that may stop at their goal are never pooled with runs that go
    on, nor smoke runs with those of other profiles. Of each workload the more thorough ones are kept."""
    how = {id(b): (b.manifest.profile == "smoke", bool(b.manifest.configuration.get("stop_at_goal"))) for b in bundles}
    most_thorough: dict[tuple[str, str], tuple[bool, bool]] = {}
    for b in bundles:
        key = b.manifest.suite, b.manifest.workload
        most_thorough[key] = min(how[id(b)], most_thorough.get(key, (True, True)))
    left_out = [b for b in bundles if how[id(b)] != most_thorough[b.manifest.suite, b.manifest.workload]]
    counts = Counter((b.manifest.suite, b.manifest.workload) for b in left_out)
    kept = [b for b in bundles if how[id(b)] == most_thorough[b.manifest.suite, b.manifest.workload]]
    return kept, [
        f"left out: {number} smoke run{'s' * (number > 1)} of {workload} ({suite}), which longer runs are never pooled with"
        for (suite, workload), number in sorted(counts.items())
    ]


def _one_machine_each(bundles: Iterable[Bundle]) -> None:
    """Seconds of different machines have no mean."""
    known: dict[tuple[str, str], Bundle] = {}
    for b in bundles:
        m = b.manifest
        first = known.setdefault((m.suite, m.workload), b)
        ours, theirs = machine.name(first.manifest.environment), machine.name(m.environment)
        if ours != theirs:
            raise bundle.BundleError(
                f"{m.suite} {m.workload} was measured on {ours} ({first.path.name}) and on {theirs} ({b.path.name}): "
                "build a report of each machine"
            )


def _descriptions(bundles: list[Bundle], suite: str) -> dict[str, dict[str, Any]]:
    return {b.manifest.workload: b.manifest.configuration["workload"] for b in bundles if b.manifest.suite == suite}


def _understand_scaling(bundles: list[Bundle]) -> tuple[list[scaling.Run], list[tuple[Bundle, str]]]:
    """What can be understood, and what cannot with its reason: a run that ended too soon does not spoil the others."""
    understood, unusable = [], []
    for b in bundles:
        try:
            understood.append(scaling.understand(b))
        except ValueError as error:
            unusable.append((b, str(error)))
    return understood, unusable


def _settings(bundles: Iterable[Bundle]) -> dict[Setting, dict[str, Any]]:
    """Settings of the scaling suite; a workload is described as it is on the fewest nodes."""
    found: dict[Setting, dict[str, Any]] = {}
    for b in sorted(bundles, key=lambda b: b.manifest.nodes):
        configuration = b.manifest.configuration
        workload = configuration["workload"]
        first = {"workload": workload, "regime": configuration.get("regime", {}), "environments": {}, "varies": set()}
        setting = found.setdefault(scaling.setting_of(b), first)
        if not b.manifest.system.endswith(COPIES):  # Each of several copies has what one node has.
            setting["environments"][b.manifest.nodes] = workload["environments"]
        setting["varies"] |= {key for key in workload if workload[key] != setting["workload"].get(key)}
    return found


OWN_TITLES = ("transmission", scaling.SUITE)
"""Suites in which a system's id is not the same thing as in the others."""


def _title_key(b: Bundle) -> str:
    label = label_of(b)
    return f"{b.manifest.suite}:{label}" if b.manifest.suite in OWN_TITLES else label


def pairs_of_node_systems(labels: set[str]) -> list[tuple[str, str]]:
    """(first, second) pairs of the scaling suite: every two systems that communicate, and each against its second run."""
    systems = sorted(
        (label for label in labels if not label.endswith((COPIES, AGAIN))),
        key=lambda label: (NODE_SYSTEMS.index(label) if label in NODE_SYSTEMS else len(NODE_SYSTEMS), label),
    )
    pairs = list(itertools.combinations(systems, 2))
    return pairs + [(label.removesuffix(AGAIN), label) for label in sorted(labels) if label.endswith(AGAIN)]


def pairs_of_pipes(labels: set[str], ceiling: str) -> list[tuple[str, str]]:
    """(first, second) pairs of the transmission suite: everybody against the ceiling, TianJi against everybody and itself, and
    the XingTian-style system against Ray, of which there is a published claim."""
    found = sorted(labels)
    pairs = [(label, ceiling) for label in found if ceiling in labels and label != ceiling and not label.endswith(AGAIN)]
    if REFERENCE in labels:
        pairs += [(REFERENCE, label) for label in found if label not in (REFERENCE, ceiling)]
    claimed = ("xingtian", "ray-store")
    return [*pairs, claimed] if labels.issuperset(claimed) else pairs


def certificate_rows(certificates: list[bundle.Certificate]) -> pd.DataFrame:
    """Findings of all certificates; what could not be certified has its reason instead of a quantity."""
    rows = [msgspec.structs.asdict(finding) for certificate in certificates for finding in certificate.findings]
    for certificate in certificates:
        rows += [{"system": name, "reason": reason} for name, reason in certificate.failures.items()]
    columns = ["workload", "system", "quantity", "error", "scale", "equal", "reason"]
    return pd.DataFrame(rows, columns=columns).drop_duplicates(["workload", "system", "quantity"])


def _title(b: Bundle) -> str:
    return f"{b.manifest.system_title}, second run" if b.manifest.replica else b.manifest.system_title


def thin(curves: pd.DataFrame) -> pd.DataFrame:
    """At most `CURVE_POINTS` rows a run, evenly picked, the last one kept."""
    parts = []
    for _, run in curves.groupby(["workload", "system", "session", "block"], sort=True):
        step = max(1, -(-len(run) // CURVE_POINTS))
        keep = run.iloc[::-1].iloc[::step].iloc[::-1]
        parts.append(keep)
    return pd.concat(parts, ignore_index=True) if parts else curves


def write(dataset: Dataset, out: Path) -> None:
    """Write `summary.json` and `series/*.csv`."""
    # A row a line: small, and two of them can be compared.
    rows = ",\n".join(json.dumps(row, allow_nan=False) for row in dataset.rows)
    text = f'{{"schema": {json.dumps(SCHEMA)}, "rows": [\n{rows}\n]}}\n'
    (out / "summary.json").write_text(text, encoding="utf-8")
    (out / "series").mkdir(exist_ok=True)
    for name, frame in dataset.series.items():
        frame.to_csv(out / "series" / f"{name}.csv", index=False, float_format="%.6g")
