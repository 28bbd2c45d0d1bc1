"""What the bundles of one workload on one machine come to: rows of `summary.json` and the series beside them, suite by suite.

The analyses are the suites' own, and pure; here is said which of their functions make which rows and series. Other packages
add the rows of their suites by the entry-point group `tianji_bench.analyses`: a function from bundles to rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from programs.registry import Registry
from reports import pairs
from reports.table import Row
from suites.asynchrony import analysis as asynchrony
from suites.convergence import analysis as convergence
from suites.disciplines import analysis as disciplines
from suites.price import analysis as price
from suites.records.bundle import Bundle, Certificate
from suites.records.limits import blamed
from suites.scaling import analysis as scaling
from suites.scaling import checks, ratios
from suites.staleness import analysis as staleness
from suites.statistics.crossings import KINDS
from suites.transmission import analysis as transmission

CURVE_POINTS = 400
"""Rows kept of one learning curve: more than a figure can show."""
OUTSIDE: Registry[Callable[[Sequence[Bundle]], list[Row]]] = Registry("tianji_bench.analyses", {}, "analysis")


class Summary(NamedTuple):
    """What completed bundles say."""

    rows: list[Row]
    series: dict[str, pd.DataFrame]
    """By file name without suffix."""
    unusable: Sequence[tuple[Bundle, str]] = ()
    """Those from which nothing is to be had, and why."""
    caveats: Sequence[str] = ()
    """What makes values less exact than they look, a line each."""


def _understood(b: Bundle) -> convergence.Run:
    with blamed(b.path):
        return convergence.understand(b)


def of_convergence(bundles: Sequence[Bundle]) -> Summary:
    """Returns over time, and how many times as fast they are reached."""
    runs = [_understood(b) for b in bundles]
    rows = convergence.summarise(runs, pairs.of_training(run.label for run in runs))
    return Summary(rows, _learnt(runs) | {"time-shares": convergence.time_shares(runs)})


def _learnt(runs: list[convergence.Run], prefix: str = "") -> dict[str, pd.DataFrame]:
    curves = {f"{prefix}curves-{kind}": thin(convergence.curves(runs, kind)) for kind in KINDS}
    return curves | {f"{prefix}crossings": convergence.crossing_points(runs)}


def of_staleness(bundles: Sequence[Bundle]) -> Summary:
    """The same of the balance's forms, with the distributions of lag and age."""
    runs = [_understood(b) for b in bundles]
    rows = convergence.summarise(runs, pairs.of_balance(run.label for run in runs))
    series = {"staleness": staleness.distributions(list(bundles))} | _learnt(runs, "staleness-")
    return Summary([row | {"suite": "staleness"} for row in rows] + staleness.summarise(list(bundles)), series)


def of_disciplines(bundles: Sequence[Bundle]) -> Summary:
    """Throughput under each discipline, its bound by round times, and lag and age; returns where snapshots were played."""
    runs = [_understood(b) for b in disciplines.judged(bundles)]
    series = {
        "disciplines": staleness.distributions(list(bundles)),
        "disciplines-crossings": convergence.crossing_points(runs),
    }
    return Summary(disciplines.summarise(bundles) + disciplines.learnt(runs), series)


def of_price(bundles: Sequence[Bundle]) -> Summary:
    """Steps to a return over those without lag, at one learning rate."""
    runs = [_understood(b) for b in bundles]
    return Summary(price.summarise(runs, bundles), {"price-crossings": convergence.crossing_points(runs)})


def of_asynchrony(bundles: Sequence[Bundle]) -> Summary:
    """Throughput over the barrier's in one cell; returns where snapshots were played."""
    return Summary(asynchrony.summarise(bundles, [_understood(b) for b in disciplines.judged(bundles)]), {})


def of_transmission(bundles: Sequence[Bundle]) -> Summary:
    """Goodput, delays and cost of pipes."""
    transfers = transmission.transfers(bundles)
    places = {b.manifest.workload: {"testbed": b.manifest.testbed, "nodes": b.manifest.nodes} for b in bundles}
    ceilings = {b.manifest.workload: b.manifest.configuration["workload"]["ceiling"] for b in bundles}
    rows = transmission.summarise(transfers, places, lambda workload, found: pairs.of_pipes(found, ceilings[workload]))
    return Summary(rows, {"transfers": transfers, "delays": transmission.delays(bundles)})


def of_scaling(bundles: Sequence[Bundle]) -> Summary:
    """Throughput on nodes, the fitted law, and what nodes used; a run that ended too soon does not spoil the others.

    Blocks in which nodes changed their speed are not counted."""
    runs: list[scaling.Run] = []
    unusable: list[tuple[Bundle, str]] = []
    for b in bundles:
        try:
            runs.append(scaling.understand(b))
        except ValueError as error:
            unusable.append((b, str(error)))
    runs, thrown_out = checks.steady(runs)
    unusable += thrown_out
    caveats = checks.caveats(runs)
    laws = ratios.fit_laws(runs)
    rows = ratios.summarise(runs, pairs.of_nodes, laws)
    series = {
        "scaling-points": scaling.run_points(runs),
        "scaling-nodes": scaling.node_points(runs),
        "scaling-checks": checks.check_points(run.bundle for run in runs),
        "scaling-crossings": scaling.crossing_points(runs),
        "scaling-laws": ratios.law_points(laws),
        "scaling-curves": ratios.curves(rows, laws),
    }
    return Summary(rows, series, unusable, caveats)


SUMMARIES: dict[str, Callable[[Sequence[Bundle]], Summary]] = {
    "convergence": of_convergence,
    "staleness": of_staleness,
    "disciplines": of_disciplines,
    "price": of_price,
    "asynchrony": of_asynchrony,
    "transmission": of_transmission,
    scaling.SUITE: of_scaling,
}
"""By suite, in the order of `summary.json`."""


def of(suite: str, bundles: Sequence[Bundle]) -> Summary:
    """What bundles of one suite come to; nothing where nobody has an analysis for it.

    Raises
    ------
    ValueError, KeyError
        when a completed bundle lacks what its suite promises.
    """
    if suite in SUMMARIES:
        return SUMMARIES[suite](bundles)
    return Summary(OUTSIDE.get(suite)(bundles) if suite in OUTSIDE.names() else [], {})


def thin(curves: pd.DataFrame) -> pd.DataFrame:
    """At most `CURVE_POINTS` rows a run, evenly picked, the last one kept."""
    if not len(curves):
        return curves
    runs = curves.groupby(["workload", "system", "session", "block"], sort=True)
    number, left = runs.ngroup().to_numpy(), runs.cumcount(ascending=False).to_numpy()
    size = np.bincount(number)[number]
    kept = np.flatnonzero(left % np.maximum(1, -(-size // CURVE_POINTS)) == 0)
    return curves.iloc[kept[np.argsort(number[kept], kind="stable")]].reset_index(drop=True)


def of_certificates(certificates: Iterable[Certificate]) -> pd.DataFrame:
    """What all certificates found; what could not be certified has its reason instead of a quantity."""
    every = list(certificates)
    rows = [msgspec.structs.asdict(finding) for certificate in every for finding in certificate.findings]
    rows += [{"system": name, "reason": reason} for certificate in every for name, reason in certificate.failures.items()]
    columns = ["workload", "system", "quantity", "error", "scale", "equal", "reason"]
    return pd.DataFrame(rows, columns=columns).drop_duplicates(["workload", "system", "quantity"])
