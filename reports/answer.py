"""The answer of a session, for a terminal: a bar for each system, a line for each kind of message, and what failed.

Pure functions from a dataset to lines of text. All else is on the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reports import bounds
from reports.dataset import Dataset
from reports.messages import Traffic
from reports.nodes import Scaled
from reports.pairs import REFERENCE, RELAXED
from reports.table import Row
from reports.tables import inverse, number, size_text
from reports.training import Balanced, Trained
from suites.records.bundle import Bundle
from suites.records.causes import cause

KIND = "training"
"""Of the return that times are to: it is known for every system while it trains."""
SIZE_BYTES = 1 << 20
"""Of the messages that are told of, or the largest below."""
PEERS = 2
"""Other ways of moving messages that are told of."""
BAR, LEAST_REASON = (8, 32), 20
"""Characters: a bar's at least and at most, a reason's at least."""


def lines(data: Dataset, columns: int = 100, full: str = "█", open_ended: str = "░") -> list[str]:
    """The whole answer.

    Parameters
    ----------
    columns
        of the terminal, which bars are fitted in.
    full, open_ended
        what bars are drawn with: of a time to the return, and of a time in which it was not reached.
    """
    told: list[str] = []
    views = Trained.all(data)
    for view in views:
        told += _times(view, views, columns, full, open_ended)
    return [*told, *_messages(data), *_nodes(data), *_balance(data), *_failures(data), *data.caveats, *data.left_out]


def _times(view: Trained, views: list[Trained], columns: int, full: str, open_ended: str) -> Iterator[str]:
    """One workload of the convergence suite: a bar for each system, its seconds, and how many times as fast TianJi is."""
    rows = {label: view.row(label, "time_to_threshold_s", threshold_kind=KIND) for label in view.shown}
    reached = {label: row["value"] for label, row in rows.items() if row and row["value"] is not None}
    watched = {label: _watched_s(view, label) for label, row in rows.items() if row and row["value"] is None}
    texts = {
        label: (
            view.title(label),
            _seconds(reached.get(label), watched.get(label)),
            _runs(rows[label]),
            "  ".join(filter(None, [_ratios(view, label), _failed(view, label, columns)])),
        )
        for label in view.shown
    }
    name, seconds, runs, rest = ([*map(len, column)] for column in zip(*texts.values(), strict=True))
    left = columns - max(name) - max(seconds) - max(runs) - max(rest) - 10
    width = min(max(BAR[0], left), BAR[1])
    scale = width / max([*reached.values(), *watched.values()], default=1.0)
    target = view.description["thresholds"][KIND]
    yield f"{view.name}: seconds to a {KIND} return of {target:g}; TianJi is x times as fast{_without(view, views)}"
    for label, (title, value, counted, more) in texts.items():
        length = reached.get(label, watched.get(label, 0.0)) * scale
        bar = (full if label in reached else open_ended) * (max(1, round(length)) if length else 0)
        yield f"  {title:{max(name)}}  {bar:{width}}  {value:>{max(seconds)}}  {counted:{max(runs)}}  {more}".rstrip()


def _watched_s(view: Trained, label: str) -> float:
    """The longest run in which the return was not reached."""
    frame = view.points("crossings")
    return float(frame[(frame["system"] == label) & (frame["threshold_kind"] == KIND)]["measured_s"].max())


def _seconds(reached_s: float | None, watched_s: float | None) -> str:
    if reached_s is not None:
        return f"{number(reached_s)} s"
    return "-" if watched_s is None else f"not in {number(watched_s)} s"


def _runs(row: Row | None) -> str:
    """`n = 2`; `n = 1 of 2` where one of two runs did not get there."""
    if row is None:
        return "n = 0"
    return f"n = {row['n'] - row['censored']} of {row['n']}" if row["censored"] else f"n = {row['n']}"


def _ratios(view: Trained, label: str) -> str:
    """How many times as fast TianJi is; strict and relaxed, where both trained."""
    names = {REFERENCE: "strict", RELAXED: "relaxed"} if RELAXED in view.labels else {REFERENCE: "TianJi"}
    told = {name: view.fast(first, label, KIND) for first, name in names.items() if label not in (REFERENCE, first)}
    costs = {name: view.costs(first, label, KIND) for first, name in names.items()}
    cores = {name: f" (cores x {number(row['value'])})" for name, row in costs.items() if row and row["value"] is not None}
    return ", ".join(f"{name} x {_said(one)}{cores.get(name, '')}" for name, one in told.items() if one.leading is not None)


def _said(told: bounds.Told) -> str:
    """A ratio; where a side missed the return in some block, that of restricted means, then the bound."""
    easy = "" if told.row is None else f"{bounds.SIGNS[told.bound]}{number(told.row['value'])}"
    if told.mean is None or told.exact:
        return easy
    return f"{number(told.mean['value'])} (mean)" + (f", {easy}" if told.bound else "")


def _failed(view: Trained, label: str, columns: int) -> str:
    """How many runs of a system failed, its second runs too, and why the first of them did."""
    failed = _failed_runs(b for b in view.bundles if b.manifest.system == label)
    return f"{len(failed)} failed: {_shortened(failed[0][1], max(LEAST_REASON, columns // 2))}" if failed else ""


def _failed_runs(runs: Iterable[Bundle]) -> list[tuple[Bundle, str]]:
    return [(b, cause(b.manifest.error)) for b in runs if b.manifest.status != "completed"]


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _without(view: Trained, views: list[Trained]) -> str:
    """Systems by name that trained on other workloads and not on this one, which they were meant for."""
    everywhere = {label: one.title(label) for one in views for label in one.shown if label != RELAXED}
    missing = [title for label, title in everywhere.items() if label not in view.labels]
    return f"; without {', '.join(missing)}" if missing and len(view.labels) > 1 else ""


def _messages(data: Dataset) -> Iterator[str]:
    """What TianJi's channel moves in a second, in each place: as a share of the ceiling, and over two others."""
    known = [one for view in Traffic.all(data) for one in _channel(view)]
    if known:
        sizes = "/".join(size_text(size) for size in sorted({size for size, _, _ in known}))
        blocks = "/".join(map(str, sorted({n for _, n, _ in known})))
        yield f"messages of {sizes} (n = {blocks}): TianJi's goodput, its share of the ceiling's, how many times two others'"
        yield from (f"  {told}" for _, _, told in known)


def _channel(traffic: Traffic) -> Iterator[tuple[int, int, str]]:
    """Size of the messages, number of blocks, and what is told of TianJi's channel on one workload."""
    n = next(iter(traffic.explorers), 1)
    sizes = traffic.sizes(n)
    size = max((size for size in sizes if size <= SIZE_BYTES), default=max(sizes, default=0))
    goodput = traffic.at(REFERENCE, "goodput_bytes_per_s", size, n)
    if goodput is None:
        return
    where = "one host" if traffic.description["testbed"] == "local" else "two hosts"
    if rate := traffic.description["link_bits_per_s"]:
        where += f", {rate / 1e9:g} Gbit/s"
    where = ", ".join(filter(None, (where, traffic.apart)))
    told = [f"{number(goodput['value'] / 1e9)} GB/s"]
    if share := traffic.at(REFERENCE, "goodput_ratio", size, n, traffic.ceiling):
        told.append(f"{number(share['value'])} of {traffic.titles[traffic.ceiling]}")
    over = {label: traffic.at(REFERENCE, "goodput_ratio", size, n, label) for label in traffic.competitors}
    known = {label: row for label, row in over.items() if row is not None}
    told += [f"{number(row['value'])} x {traffic.title(label)}" for label, row in list(known.items())[:PEERS]]
    yield (size, goodput["n"], f"{traffic.description['direction']}, {where}: {', '.join(told)}")


def _nodes(data: Dataset) -> Iterator[str]:
    """What the most nodes make of TianJi's throughput, a line for each setting of the scaling suite."""
    for scaled in Scaled.all(data):
        most = scaled.most
        rows = {"what it does on one": scaled.speedup(REFERENCE, most), f"{most} copies": scaled.share(REFERENCE, most)}
        fewer = {nodes: scaled.speedup(REFERENCE, nodes) for nodes in scaled.nodes if 1 < nodes < most}
        peers = [label for label in scaled.systems if not label.startswith(REFERENCE)]
        rows |= {scaled.title(label): scaled.over("unique_consumption_ratio", label, most) for label in peers}
        known = {name: row for name, row in rows.items() if row is not None}
        if known:
            told = ", ".join(f"{number(row['value'])} x {name}" for name, row in known.items())
            n = "/".join(map(str, sorted({row["n"] for row in known.values()})))
            less = ", ".join(f"{number(row['value'])} x on {nodes}" for nodes, row in fewer.items() if row is not None)
            yield f"{scaled.name}, {most} nodes: TianJi trains on {told} (n = {n}){f'; {less} nodes' if less else ''}"


def _balance(data: Dataset) -> Iterator[str]:
    """What relaxing costs in steps and gains in speed, a line for each workload of the staleness suite."""
    for view in Balanced.all(data):
        steps = view.find(REFERENCE, "steps_to_threshold_ratio", threshold_kind=KIND, baseline=RELAXED)
        rate = inverse(view.find(REFERENCE, "production_ratio", baseline=RELAXED))
        if steps and rate:
            target = view.description["thresholds"][KIND]
            yield (
                f"{view.name}, relaxed over strict: {number(steps['value'])} x the steps to a {KIND} return of {target:g}, "
                f"{number(rate['value'])} x the steps a second (n = {steps['n']})"
            )


def _failures(data: Dataset) -> Iterator[str]:
    """Of each other suite how many runs failed, or can be told nothing from, and the first reason."""
    for suite in sorted({b.manifest.suite for b in data.bundles} - {"convergence"}):
        runs = [b for b in data.bundles if b.manifest.suite == suite]
        found = _failed_runs(runs) + [one for one in data.unusable if one[0].manifest.suite == suite]
        if found:
            m, reason = found[0][0].manifest, found[0][1]
            which = f"{m.workload}, block {m.block}, {m.system}: {reason}"
            yield f"{suite}: {len(found)} of {len(runs)} runs failed or say nothing; the first is {which}"
