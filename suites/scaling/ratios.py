"""Summary of the scaling suite: rows of `summary.json`, and the fitted curve.

Functions are pure, and no package that trains is imported. Ratios are formed within blocks: same session and block, any number
of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import pandas as pd

from suites.scaling.analysis import COPIES, SCALARS, SUITE, Run, Setting
from suites.statistics import summary, usl
from suites.statistics.crossings import KINDS, Block, all_ratios, horizon_steps, quantities, ratio_of, time_ratios
from suites.statistics.intervals import Estimate, bootstrap_iqm
from suites.statistics.summary import AGAIN, Row

SELF = "self@1"
"""The baseline of speed-ups and efficiencies: the same system on one node, in the same block."""
HEADLINE = "unique_consumption_samples_per_s"
RATIOS = {
    "production": "production_steps_per_s",
    "consumption": "consumption_samples_per_s",
    "unique_consumption": HEADLINE,
}
"""Throughputs by what the names of their ratios begin with."""
COEFFICIENTS = (("usl_contention", "sigma"), ("usl_coherence", "kappa"))

SPEEDUP = "_speedup_ratio"
"""How the metrics of a system's own throughput on many nodes over one end."""

row = partial(summary.row, SUITE)

Pairs = Callable[[set[str]], Iterable[tuple[str, str]]]
Table = dict[tuple[str, int], dict[Block, Run]]
"""Runs of one setting by system and number of nodes."""
Laws = dict[tuple[Setting, str], usl.Law]
"""Fitted law of each setting and system."""


def summarise(runs: Sequence[Run], pairs: Pairs, laws: Laws) -> list[Row]:
    """Rows of `summary.json`.

    Parameters
    ----------
    runs
        of any settings: those are never mixed.
    pairs
        given the labels of a setting, the (first, second) whose ratios are wanted: a ratio of throughputs is the first's over
        the second's, one of times says how many times faster the first is.
    laws
        of `fit_laws`.

    Raises
    ------
    ValueError
        when one experiment was run in two regimes: they would be pooled.
    """
    rows: list[Row] = []
    for setting, of_setting in by_setting(runs).items():
        table = _table(of_setting)
        labels = {label for label, _ in table}
        wanted = list(pairs(labels))
        for label, nodes in sorted(table):
            more = {"testbed": setting.testbed, "nodes": nodes, "scaling": setting.scaling}
            here = partial(row, setting.workload, label, **more)
            rows += _of_system(here, table[label, nodes].values())
            rows += _of_crossings(here, table, label, nodes)
            rows += _against_one_node(here, table, label, nodes)
            rows += _against_copies(here, table, label, nodes)
            for second in (second for first, second in wanted if first == label and (second, nodes) in table):
                rows += _against(here, table, label, second, nodes)
    for (setting, label), law in laws.items():
        rows += _law_rows(setting, label, law)
    return rows


def by_setting(runs: Iterable[Run]) -> dict[Setting, list[Run]]:
    """Runs that may be compared, sorted.

    Raises
    ------
    ValueError
        when one experiment was run in two regimes.
    """
    found: dict[Setting, list[Run]] = {}
    for run in runs:
        found.setdefault(run.setting, []).append(run)
    for setting, members in found.items():
        regimes = [run.bundle.manifest.configuration.get("regime") for run in members]
        if any(regime != regimes[0] for regime in regimes):
            different = " and ".join(sorted({str(regime) for regime in regimes}))
            raise ValueError(f"{setting.workload} was run in different regimes: {different}; report them apart")
    return dict(sorted(found.items()))


def _table(runs: Iterable[Run]) -> Table:
    table: Table = {}
    for run in sorted(runs, key=lambda run: run.block):
        table.setdefault((run.label, run.nodes), {})[run.block] = run
    return table


def copies_of(label: str, labels: Iterable[str]) -> str | None:
    """Non-communicating copies with which a system is compared: its own, or those of the system with which its id begins."""
    found = [
        name
        for name in labels
        if name.endswith(COPIES) and name != label and f"{label}-".startswith(f"{name.removesuffix(COPIES)}-")
    ]
    return max(found, key=len, default=None)


def fitted(label: str) -> bool:
    """Whether the law of scalability is fitted: not of copies, nor of second runs."""
    return not label.endswith((COPIES, AGAIN))


def fit_laws(runs: Iterable[Run]) -> Laws:
    """The law of every system in every setting whose nodes have cores of their own, by unique consumption.

    Raises
    ------
    ValueError
        when one experiment was run in two regimes.
    """
    found: Laws = {}
    for setting, of_setting in by_setting(run for run in runs if not run.cores_shared).items():
        for label in sorted({run.label for run in of_setting if fitted(run.label)}):
            own = [(run, value) for run in of_setting if run.label == label and (value := run.metrics[HEADLINE])]
            blocks = sorted({run.block for run, _ in own})
            numbers = [blocks.index(run.block) for run, _ in own]
            found[setting, label] = usl.law(numbers, [run.nodes for run, _ in own], [value for _, value in own])
    return found


Here = Callable[..., Row]


def _of_system(here: Here, runs: Iterable[Run]) -> Iterator[Row]:
    for metric, unit in SCALARS:
        values = [value for run in runs if (value := run.metrics[metric]) is not None]
        # What crosses no link has an overhead of nothing: said, not left out.
        if values or metric == "socket_bytes_per_payload_byte":
            yield here(metric, unit, bootstrap_iqm(values))


def _of_crossings(here: Here, table: Table, label: str, nodes: int) -> Iterator[Row]:
    """Of those that trained to a threshold; they are restricted to what all on as many nodes were watched for."""
    watched = {name: [r.learning for r in found.values() if r.learning] for (name, n), found in table.items() if n == nodes}
    if own := watched[label]:
        horizon = horizon_steps(run for runs in watched.values() for run in runs)
        for kind in KINDS:
            more = {"threshold_kind": kind, "censored": sum(run.crossings[kind] is None for run in own)}
            yield from (here(metric, unit, value, **more) for metric, unit, value in quantities(own, kind, horizon))


def _paired(values: Iterable[tuple[float | None, float | None, str]]) -> tuple[Estimate, int] | None:
    """Estimate over numerators and denominators of blocks of sessions, and the number of incomplete ones. None: no block."""
    listed = list(values)
    both = [(top, bottom, session) for top, bottom, session in listed if top and bottom and min(top, bottom) > 0]
    return (ratio_of(both), len(listed) - len(both)) if listed else None


def _ratios(ours: Mapping[Block, Run], theirs: Mapping[Block, Run]) -> Iterator[tuple[str, Estimate, int]]:
    """Ratios of every throughput within blocks."""
    common = sorted(ours.keys() & theirs.keys())
    for name, metric in RATIOS.items():
        values = ((ours[block].metrics[metric], theirs[block].metrics[metric], block[0]) for block in common)
        if (found := _paired(values)) is not None:
            yield name, *found


def _against_one_node(here: Here, table: Table, label: str, nodes: int) -> Iterator[Row]:
    if (label, 1) not in table or nodes == 1 or _cores_shared(table[label, nodes]):
        return
    for name, speedup, censored in _ratios(table[label, nodes], table[label, 1]):
        more = {"baseline": SELF, "censored": censored}
        yield here(f"{name}{SPEEDUP}", "ratio", speedup, **more)
        yield here(f"{name}_efficiency_ratio", "ratio", scaled(speedup, 1 / nodes), **more)


def scaled(estimate: Estimate, by: float) -> Estimate:
    """A value and its interval, times a number."""
    value, low, high = (None if x is None else x * by for x in (estimate.value, estimate.low, estimate.high))
    return Estimate(value, low, high, estimate.n)


def impossible(row: Row) -> bool:
    """Whether a speed-up of weak scaling is above the number of nodes: then the cell on one node was slow.

    As many nodes do as much work each, on cores of their own. Together they cannot do more than one node times their number.
    """
    own = row["baseline"] == SELF and row["metric"].endswith(SPEEDUP) and row["scaling"] == "weak"
    return bool(own and row["value"] is not None and row["value"] > row["nodes"])


def _against_copies(here: Here, table: Table, label: str, nodes: int) -> Iterator[Row]:
    copies = copies_of(label, {name for name, _ in table}) if fitted(label) else None
    if copies is None or (copies, nodes) not in table:
        return
    for name, share, censored in _ratios(table[label, nodes], table[copies, nodes]):
        whose = "" if RATIOS[name] == HEADLINE else f"{name}_"
        yield here(f"{whose}copies_share_ratio", "ratio", share, baseline=copies, censored=censored)


def _against(here: Here, table: Table, first: str, second: str, nodes: int) -> Iterator[Row]:
    ours, theirs = table[first, nodes], table[second, nodes]
    for name, ratio, censored in _ratios(ours, theirs):
        yield here(f"{name}_ratio", "ratio", ratio, baseline=second, censored=censored)
    one_ours, one_theirs = table.get((first, 1), {}), table.get((second, 1), {})
    everywhere = sorted(ours.keys() & theirs.keys() & one_ours.keys() & one_theirs.keys())
    speedups = (
        (_quotient(ours[block], one_ours[block]), _quotient(theirs[block], one_theirs[block]), block[0]) for block in everywhere
    )
    if nodes > 1 and not _cores_shared(ours) and (found := _paired(speedups)) is not None:
        yield here("speedup_ratio", "ratio", found[0], baseline=second, censored=found[1])
    trained, others = ({block: run.learning for block, run in side.items() if run.learning} for side in (ours, theirs))
    for kind in KINDS if trained.keys() & others.keys() else ():
        for metric, estimate, censored in (*time_ratios(trained, others, kind), *all_ratios(trained, others, kind)):
            yield here(metric, "ratio", estimate, baseline=second, threshold_kind=kind, censored=censored)


def _cores_shared(runs: Mapping[Block, Run]) -> bool:
    """Whether nodes share cores, in which case the ratio of many nodes to one says nothing. Runs of a setting agree on it."""
    return any(run.cores_shared for run in runs.values())


def _quotient(run: Run, one: Run) -> float | None:
    many, single = run.metrics[HEADLINE], one.metrics[HEADLINE]
    return many / single if many and single else None


def _law_rows(setting: Setting, label: str, law: usl.Law) -> list[Row]:
    """Rows of the fitted law over all numbers of nodes, with `nodes` null."""
    more = {"testbed": setting.testbed, "nodes": None, "scaling": setting.scaling}
    rows = [row(setting.workload, label, name, "coefficient", getattr(law, part), **more) for name, part in COEFFICIENTS]
    rows.append(row(setting.workload, label, f"usl_single_node_{HEADLINE}", "samples/s", law.single, **more))
    return rows


def law_points(laws: Laws) -> pd.DataFrame:
    """A line a law; where there are no coefficients, why."""
    rows = []
    for (setting, label), law in laws.items():
        found: dict[str, object] = {}
        for name, estimate in (("sigma", law.sigma), ("kappa", law.kappa), ("single", law.single)):
            found |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        peak = law.coefficients.peak_nodes if law.coefficients else None
        what = setting._asdict() | {"system": label, "blocks": law.sigma.n}
        rows.append(what | found | {"peak_nodes": peak, "reason": law.reason})
    estimates = [f"{name}{end}" for name in ("sigma", "kappa", "single") for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=[*Setting._fields, "system", "blocks", *estimates, "peak_nodes", "reason"])


def curves(rows: Iterable[Row], laws: Laws) -> pd.DataFrame:
    """Unique consumption by number of nodes, with its interval and what the fitted law says there."""
    lines = []
    for r in rows:
        if r["metric"] == HEADLINE:
            setting = Setting(r["workload"], r["testbed"], r["scaling"])
            law = laws.get((setting, r["system"]))
            by_law = float(law.coefficients.throughput(r["nodes"])) if law and law.coefficients else None
            value = {"value": r["value"], "low": r["ci_low"], "high": r["ci_high"], "n": r["n"], "usl": by_law}
            lines.append(setting._asdict() | {"system": r["system"], "nodes": r["nodes"]} | value)
    columns = [*Setting._fields, "system", "nodes", "value", "low", "high", "n", "usl"]
    return pd.DataFrame(lines, columns=columns)
