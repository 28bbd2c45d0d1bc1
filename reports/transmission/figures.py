"""Figures of the transmission suite, each of all its workloads, in either style."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from reports.looks import GREY, look
from reports.marks import Mark, intervals, legend, level, panel_title, plain_log
from reports.styles import Drawing, Plot, Style, drawing
from reports.tables import size_text
from reports.transmission.view import Traffic

NAMES_AT_MOST = (4, 2)
"""Sizes that an axis names on a page and in a paper; of more, every second or third."""
TITLE_AT_MOST = (38, 22)
"""Characters of a line above one of two panels."""
BESIDE_NAMES = 32
"""Likewise, where names stand beside the panel."""
DELAYED = {1 << 10: ("o", 0.25), 1 << 16: ("s", 0.0), 1 << 20: ("D", -0.25)}
"""Sizes whose delays are drawn: their marker, and how far above a row they stand."""
WIDE = 2.0
"""A number with its unit, in widths of a number."""
UNITS = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))


def delay_text(seconds: float) -> str:
    """A tick of an axis of delays: `20 µs`, `0.5 s`."""
    unit, name = next(((unit, name) for unit, name in reversed(UNITS) if seconds >= 0.999 * unit), UNITS[0])
    return f"{seconds / unit:g} {name}"


def goodput(views: Sequence[Traffic], style: Style) -> Drawing | None:
    """Goodput against size with the fewest explorers, a panel a workload; ceilings without marks."""
    return _by_size(views, style, share=False)


def share(views: Sequence[Traffic], style: Style) -> Drawing | None:
    """Goodput as a share of the ceiling, likewise."""
    return _by_size([view for view in views if view.ceiling in view.labels], style, share=True)


def _by_size(views: Sequence[Traffic], style: Style, *, share: bool) -> Drawing | None:
    views = [view for view in views if view.labels]
    if not views:
        return None
    figure, axes = style.panels(len(views), (2.9, 2.1), sharey=not share)
    marks: list[Mark] = []
    for axis, view in zip(axes, views, strict=True):
        n = view.explorers[0]
        metric, baseline, scale = ("goodput_ratio", view.ceiling, 100) if share else ("goodput_bytes_per_s", None, 1e-6)
        for label in view.shown:
            rows = [row for size in view.sizes(n) if (row := view.at(label, metric, size, n, baseline))]
            drawn = intervals(axis, label, view.title(label), "size_bytes", rows, scale)
            marks += [{"workload": view.name, **mark} for mark in drawn]
        _size_axis(axis, view.sizes(n), style.pick(*NAMES_AT_MOST))
        panel_title(axis, view.subject, style.pick(*TITLE_AT_MOST))
        if share:
            level(axis, 100)
            axis.set_ylim(bottom=0)
            axis.set_ylabel(f"% of {view.titles[view.ceiling]}")
        else:
            plain_log(axis.yaxis)
    for axis in axes[::2] if not share else []:
        axis.set_ylabel("goodput, MB/s (log scale)")
    legend(figure, axes, style.legend_columns, marks)
    return drawing(figure, marks)


def delay(views: Sequence[Traffic], style: Style) -> Drawing | None:
    """Delays from the median to the 99th percentile, a panel a workload and a row a system, with the fewest explorers."""
    views = [view for view in views if any(_delays(view, label) for label in view.shown)]
    if not views:
        return None
    labels = Traffic.in_order({label for view in views for label in view.shown})
    titles = {label: view.title(label) for view in views for label in view.shown}
    # A title, an axis and a legend need their place beside a single row, too.
    each = max(1.9, 0.75 + style.pick(0.3, 0.26) * len(labels))
    figure, axes = style.panels(len(views), (each, each), (2, 1), sharey=True)
    marks: list[Mark] = []
    for axis, view in zip(axes, views, strict=True):
        for height, label in enumerate(reversed(labels)):
            for size, p50, p99 in _delays(view, label):
                marker, offset = DELAYED[size]
                at, colour = height + offset, look(label).colour
                axis.plot([p50, p99], [at, at], color=colour, linewidth=1.4)
                axis.plot(p50, at, color=colour, marker=marker, markersize=4)
                axis.plot(p99, at, color=colour, marker="|", markersize=5)
                marks.append({"workload": view.name, "system": label, "size_bytes": size, "p50_s": p50, "p99_s": p99})
        axis.set_yticks(range(len(labels)), [titles[label] for label in reversed(labels)])
        axis.set_ylim(-0.6, len(labels) - 0.4)
        plain_log(axis.xaxis, FuncFormatter(lambda value, _: delay_text(value)), WIDE)
        axis.set_xlabel(f"{view.delay_title} (log scale)")
        panel_title(axis, view.subject, BESIDE_NAMES)
    sizes = sorted({mark["size_bytes"] for mark in marks})
    handles = [Line2D([], [], color=GREY, linestyle="", marker=DELAYED[size][0], label=size_text(size)) for size in sizes]
    handles.append(Line2D([], [], color=GREY, marker="|", markevery=[1], label="to the 99th percentile"))
    figure.legend(handles=handles, loc="outside upper center", ncols=style.legend_columns)
    blocks = {row["n"] for view in views for row in view.table.where(metric="latency_p50_s").rows}
    return drawing(figure, marks, " to ".join(str(n) for n in sorted({min(blocks), max(blocks)})))


def _delays(view: Traffic, label: str) -> list[tuple[int, float, float]]:
    """Size, median and 99th percentile of the sizes in `DELAYED` that were measured."""
    found = []
    for size in DELAYED:
        p50, p99 = (view.at(label, f"latency_{p}_s", size, view.explorers[0]) for p in ("p50", "p99"))
        if p50 is not None and p99 is not None:
            found.append((size, float(p50["value"]), float(p99["value"])))
    return found


def _size_axis(axis: Axes, sizes: Sequence[int], names: int) -> None:
    """Sizes of messages, as many named as stand beside each other."""
    step = -(-len(sizes) // names)
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [size_text(size) if number % step == 0 else "" for number, size in enumerate(sizes)])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("size of a message")


PLOTS = (
    Plot("goodput", Traffic, goodput, table="ratio"),
    Plot("share", Traffic, share),
    Plot("delay", Traffic, delay),
)
