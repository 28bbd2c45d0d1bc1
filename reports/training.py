"""One workload that was trained, of the convergence or the staleness suite: looked up, drawn, and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reports import bounds, picker
from reports.charts import Axis, Curve, Group, Panel, curve, stacked
from reports.looks import GREY, SKY, VERMILION, look
from reports.pairs import REFERENCE, RELAXED, synchronous
from reports.table import Row
from reports.tables import inverse, number, with_interval
from reports.view import Shown, View, group, in_order, shown
from suites.convergence.analysis import TOTAL
from suites.statistics.crossings import KINDS
from suites.statistics.summary import label_of

QUANTITIES = ("targets", "advantages", "loss", "gradient", "weights")
"""Of the certificate."""
EARLIEST = {"seconds": 0.1, "steps": 100.0}
"""Where a logarithmic axis begins at least."""
AXES = {"seconds": Axis("seconds from the first step", log=True), "steps": Axis("environment steps", log=True)}
POINTS, FEWEST_POINTS = 2_500, 8
"""Of all faint curves of a diagram together, and of one of them at least."""
PLACES, FINE = 60, 120
"""Places of a median on a page and in a picture."""
WINDOW = 0.03
"""Half the width of a running median, as a share of the logarithmic axis."""
MOVING = "copying and sending"
DOING = {
    ("busy", "env"): ("environments", "#007a5a", ""),
    ("busy", "infer"): ("inference", SKY, ""),
    ("busy", "sample"): ("sampling", "#1f4e79", ""),
    ("busy", "update"): ("updates", VERMILION, ""),
    ("busy", "serialise"): (MOVING, "#f0c75e", ""),
    ("busy", "send"): (MOVING, "#f0c75e", ""),
    ("wait", "samples"): ("waits for samples", "#9a9a9a", "////"),
    ("wait", "weights"): ("waits for weights", "#b5b5b5", ".."),
    ("wait", "credit"): ("waits for credit", "#c9c9c9", "xxx"),
    ("wait", "barrier"): ("waits for others", "#dddddd", ""),
}
"""What a process can be doing: its name, colour and pattern. In grey they are of different lightness; waiting is grey."""


class Trained(View):
    """Runs that trained one workload."""

    suite = "convergence"
    series = ""
    """What the names of its series begin with."""

    @cached_property
    def labels(self) -> list[str]:
        """All systems that ran, those whose every run failed among them."""
        return in_order({label_of(b) for b in self.bundles})

    @property
    def peers(self) -> list[str]:
        return [label for label in self.shown if label != REFERENCE]

    @property
    def synchronous(self) -> str | None:
        """The same code where everybody waits, as far as it ran."""
        return synchronous(self.labels)

    @property
    def stopped(self) -> bool:
        return any(b.manifest.configuration.get("stop_at_goal", False) for b in self.bundles)

    def fast(self, first: str, second: str, kind: str) -> bounds.Told:
        """How many times as fast the first reaches a threshold, as it may be told."""
        return bounds.told(lambda metric: self.row(first, metric, threshold_kind=kind, baseline=second))

    def costs(self, first: str, second: str, kind: str) -> Row | None:
        """How many times fewer core-seconds the first takes to a threshold."""
        return self.row(first, "core_seconds_to_threshold_ratio", threshold_kind=kind, baseline=second)

    def steps(self, label: str, kind: str) -> Row | None:
        """Steps that a system needs to a return, over those of the same-code synchronous system: the algorithm's reference."""
        base, metric = self.synchronous, "steps_to_threshold_ratio"
        if base is None or label == base:
            return None
        if label in (REFERENCE, RELAXED):
            return inverse(self.row(label, metric, threshold_kind=kind, baseline=base))
        return self.row(base, metric, threshold_kind=kind, baseline=label)

    def fewer(self, label: str) -> dict[str, Row]:
        """By definition of the return, that ratio where the whole interval is below 1: the system may be another algorithm.

        No adjustment for several looks: it would hide some, and a wrong suspicion costs a reader little.
        """
        rows = {kind: self.steps(label, kind) for kind in KINDS}
        return {kind: row for kind, row in rows.items() if row and row["ci_high"] is not None and row["ci_high"] < 1}

    def suspected(self, label: str) -> str:
        """The system's title; one that needs significantly fewer steps says so before its seconds are told."""
        told = ", ".join(f"{kind} {number(row['value'])}x the steps" for kind, row in self.fewer(label).items())
        return f"{self.title(label)} (another algorithm? {told})" if told else self.title(label)

    def reached(self, label: str, kind: str) -> str:
        """How many of its runs reached a return: `5`, or `3/5`."""
        row = self.row(label, "success_rate", threshold_kind=kind)
        if row is None or row["value"] is None:
            return "-"
        count = round(row["value"] * row["n"])
        return str(count) if count == row["n"] else f"{count}/{row['n']}"

    @property
    def tables(self) -> list[Shown]:
        return shown("training", map(self._line, self.labels), f"{self.slug}-training")

    def _line(self, label: str) -> dict[str, str]:
        cell, waits = self.cell(label), [self.find(label, f"actor_waits_for_{what}_share") for what in ("weights", "credit")]
        line = {"System": self.suspected(label)}
        for kind in KINDS[::-1]:
            line[f"Reached, {kind}"] = self.reached(label, kind)
            line[f"Seconds, {kind}"] = cell("time_to_threshold_s", threshold_kind=kind)
            line[f"TianJi's speed, {kind}"] = "-" if label == REFERENCE else self.fast(REFERENCE, label, kind).words
        return line | {
            "Steps, training": cell("steps_to_threshold", threshold_kind="training"),
            "Core-seconds": cell("core_seconds_to_threshold_s", threshold_kind="training", interval=False),
            "Compiles, s (speed then)": self._compiled(label),
            "Steps/s": cell("production_steps_per_s", interval=False),
            "MiB": cell("peak_rss_bytes", scale=2**-20, interval=False),
            "Age p99, rounds": cell("age_p99_rounds", interval=False),
            "Actors wait": number(sum(row["value"] for row in waits if row)) if any(waits) else "-",
        }

    def _compiled(self, label: str) -> str:
        """Seconds of compilation, and TianJi's speed to the training return where they count."""
        keys = {"threshold_kind": "training", "baseline": label}
        then = bounds.told(lambda metric: self.row(REFERENCE, f"{TOTAL}{metric}", **keys)).words
        return f"{number(row['value'])} ({then})" if (row := self.find(label, "compile_s")) else "-"

    @property
    def groups(self) -> list[Group]:
        looks = {name: (colour, hatch) for name, colour, hatch in DOING.values()}
        time = stacked("time of each role", "% of the measured seconds", self._shares(), looks)
        return [*group("curves", self._curves()), *group("costs", self._costs()), *group("time", [time])]

    def _curves(self) -> list[Panel]:
        return [
            Panel(f"{kind} return over {along}", AXES[along], Axis(f"{kind} return"), self._lines(kind, along), "lines", target)
            for kind, along in ((kind, along) for kind in KINDS[::-1] for along in AXES)
            for target in [self.description["thresholds"][kind]]
        ]

    def _lines(self, kind: str, along: str) -> list[Curve]:
        frame = self.points(f"{self.series}curves-{kind}")
        frame = frame[frame[along] > 0]
        runs = {label: [run for _, run in own.groupby(["session", "block"])] for label, own in frame.groupby("system")}
        most = max(FEWEST_POINTS, POINTS // max(1, sum(map(len, runs.values()))))
        faint = [
            curve(label, self.title(label), every[along], every["mean_return"], faint=True, legend=False)
            for label in self.shown
            for run in runs.get(label, [])
            for every in [run.iloc[:: -(-len(run) // most)]]
        ]
        return [*faint, *(self.median(label, kind, along, PLACES) for label in self.shown if label in runs)]

    def median(self, label: str, kind: str, along: str, places: int = PLACES) -> Curve:
        """A system's running median, with the band of its runs where there are several."""
        frame = self.points(f"{self.series}curves-{kind}")
        runs = [run for _, run in frame[(frame["system"] == label) & (frame[along] > 0)].groupby(["session", "block"])]
        found = band(runs, EARLIEST[along], along, places)
        told = {"low": found["low"], "high": found["high"]} if len(runs) > 1 else {}
        return curve(label, self.title(label), found[along], found["median"], **told)

    def _costs(self) -> Iterator[Panel]:
        for choice, bars in sorted(picker.bars(self.data).items(), reverse=True):
            if (choice.workload, choice.machine, choice.options) == self.key[1:]:
                curves = [_bar(bar, bar.costs["seconds"]) for bar in bars if bar.reached]
                yield Panel(f"seconds to the {choice.kind} return", Axis("seconds"), Axis(""), curves, "bars")

    def _shares(self) -> Iterator[tuple[str, str, float]]:
        """What processes of each role were doing, in percent of their measured seconds, over all runs."""
        frame = self.points("time-shares") if "time-shares" in self.data.series else pd.DataFrame()
        if frame.empty:
            return
        frame = frame.assign(role=[str(process).partition(" ")[0] for process in frame["process"]])
        for label in self.shown:
            for role, part in frame[frame["system"] == label].groupby("role", sort=True):
                measured = part[["block", "process", "measured_s"]].drop_duplicates()["measured_s"].sum()
                spent = part.groupby(["state", "cause"])["seconds"].sum()
                for doing, (name, *_) in DOING.items():
                    if (seconds := float(spent.get(doing, 0.0))) > 0:
                        yield f"{self.title(label).partition(' (')[0]}: {role}", name, 100 * seconds / float(measured)

    @property
    def certified(self) -> dict[str, dict[str, str]]:
        """By title of a system and quantity, whether that equals the reference to 1e-5, and the largest difference."""
        frame = self.data.series["certificate"]
        told = {}
        for label in self.labels:
            rows = frame[frame["system"] == label]
            own = rows[rows["workload"] == self.workload].set_index("quantity")
            if len(own) or rows["reason"].notna().any():
                missing = "not shown" if rows["reason"].notna().any() else "-"
                told[self.title(label)] = {name: _equal(own.loc[name]) if name in own.index else missing for name in QUANTITIES}
        return told


class Balanced(Trained):
    """Runs of one workload with the balance two-sided, one-sided and off."""

    suite = "staleness"
    series = "staleness-"

    def steps(self, label: str, kind: str) -> Row | None:
        """Steps that a system needs to a threshold, over the reference's."""
        return self.row(REFERENCE, "steps_to_threshold_ratio", threshold_kind=kind, baseline=label)


def views(data: Any) -> list[Trained]:
    """Every workload that was trained."""
    return [*Trained.all(data), *Balanced.all(data)]


def _bar(bar: picker.Bar, cost: list[float | None]) -> Curve:
    value, low, high = cost
    missed = "" if bar.reached == bar.runs else f" ({bar.counted})"
    edges: dict[str, Any] = {} if low is None else {"low": [low], "high": [high]}
    colour = look(bar.system).colour if bar.system in (REFERENCE, RELAXED) else GREY
    text = [f"{with_interval({'value': value, 'ci_low': None})} s{missed}"]
    return Curve(name=bar.title, x=[value], y=[bar.title.partition(" (")[0]], colour=colour, text=text, legend=False, **edges)


def _equal(found: Any) -> str:
    if pd.isna(found["error"]):
        return "not shown"
    return f"{'equal' if found['equal'] else 'differs'} ({found['error']:.0e})"


def medians(view: Trained, kind: str, along: str) -> list[Curve]:
    """A median of each system that has a curve."""
    frame = view.points(f"{view.series}curves-{kind}")
    known: Iterable[str] = frame["system"].unique()
    return [view.median(label, kind, along) for label in view.shown if label in set(known)]


def band(runs: Sequence[pd.DataFrame], start: float, along: str = "seconds", places: int = FINE) -> pd.DataFrame:
    """Summarise the curves of one system.

    Each run has a running median over a window of a logarithmic axis. At each place those runs count that have begun and
    have not ended. Where these are fewer than half of all, the curve has no point.

    Parameters
    ----------
    runs
        columns `along` and mean_return, a row a point.
    start
        where the axis begins, above 0.
    along
        column of the axis, `seconds` or `steps`.

    Returns
    -------
    pd.DataFrame
        Columns `along`, median, low, high (quartiles over runs) and runs (how many count there).
    """
    end = max(float(run[along].max()) for run in runs)
    axis = np.geomspace(start, max(end, start * 1.001), places)
    width = (end / start) ** WINDOW
    values = np.array([_running(run, along, axis, width) for run in runs])
    counts = np.isfinite(values).sum(axis=0)
    kept = 2 * counts >= len(runs)
    if not kept.any():
        return pd.DataFrame(columns=[along, "median", "low", "high", "runs"], dtype=float)
    low, median, high = np.nanpercentile(values[:, kept], (25, 50, 75), axis=0)
    return pd.DataFrame({along: axis[kept], "median": median, "low": low, "high": high, "runs": counts[kept]})


def _running(run: pd.DataFrame, along: str, places: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """A run's running median at some places; nothing before its first point and after its last."""
    ordered = run.sort_values(along, kind="stable")
    passed, returns = ordered[along].to_numpy(float), ordered["mean_return"].to_numpy(float)
    first = np.searchsorted(passed, places / width, "left")
    last = np.searchsorted(passed, places * width, "right")
    before = np.searchsorted(passed, places, "right")
    found = np.full(len(places), np.nan)
    for at, (begin, stop, known) in enumerate(zip(first, last, before, strict=True)):
        if known and places[at] <= passed[-1]:
            # Between two points that are far apart the earlier one holds.
            found[at] = np.median(returns[begin:stop]) if stop > begin else returns[known - 1]
    return found
