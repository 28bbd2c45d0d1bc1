"""The results in a README, made of bundles: who wins, by how much, where TianJi loses, and pictures in light and in dark.

The pictures are of one workload on one machine: seconds to a return as bars, and learning curves of the same runs. What they
show is kept as JSON beside them, and is what a check compares: another machine's fonts place points otherwise.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from reports import front, words
from reports.charts import Axis, Curve, Panel, rounded
from reports.claims import Judged
from reports.dataset import Dataset
from reports.front import Column, Headline, columns, headline
from reports.looks import GREY, ORANGE, VERMILION
from reports.pairs import REFERENCE, RELAXED, first_runs
from reports.plots import DARK, LIGHT, draw
from reports.tables import number
from reports.training import EARLIEST, band
from reports.verdict import MOST_BLOCKS
from reports.waiting import Mapped

BEGIN = "<!-- results: made by `nox -s readme`; not by hand -->"
END = "<!-- end of results -->"
WIDTH = "49%"
"""How wide each of the pictures is shown."""
CLOSE = 1e-3
"""Share by which a value in `pictures.json` may differ: other processors round otherwise."""
VALUES = "pictures.json"
FILES, MAP = ("seconds", "curves"), "map"
"""Names without `.png` and `-dark.png`. The map is that of the documentation."""
MAP_CELLS = 6
"""Cells of a panel of the map at least."""
STYLES = {"": LIGHT, "-dark": DARK}
COLOURS = {REFERENCE: VERMILION, RELAXED: ORANGE}
"""Of TianJi's two modes; all others are grey."""
SHORT = {"rllib-old": "RLlib 2.9"}
"""What a bar is called where a title without its brackets would not do."""
PALETTE = 256
HEIGHT_IN = 4.2


def block(data: Dataset, judged: Sequence[Judged], pictures: str) -> str:
    """The README's results as Markdown.

    Parameters
    ----------
    pictures
        path of the pictures' folder from the README.
    """
    shown, head = columns(data), headline(data)
    commits = {
        str(b.manifest.environment.get("git_commit") or "")[:8]: b.manifest.environment.get("date") for b in data.bundles
    }
    return words.render(
        "readme.md.j2",
        begin=BEGIN,
        end=END,
        data=data,
        h=head,
        columns=shown,
        heads=[
            "system",
            *(one.workload for one in shown),
            *(f"{name.upper()}: TianJi is" for name in front.algorithms(shown)),
        ],
        lines=[_texts(line) for line in front.lines(data, shown, head)],
        marks=sorted({one.mark for answer in head.answers for one in answer.verdicts if one.mark}),
        more=_more(head),
        people=front.people(head),
        places=[(one.workload, one.machine) for one in shown],
        tuned=front.tuned(data, shown),
        rates=front.rates(data),
        game=front.game(data),
        waiting=front.waiting(data),
        papers=front.papers(judged),
        most=MOST_BLOCKS,
        dates=sorted(str(date) for date in commits.values() if date),
        pictures=_pictures(data, pictures) if shown else "",
    )


def _texts(line: front.Line) -> list[str]:
    marked = any(one is not None and one.mark for one in line.verdicts)
    return [f"{line.title} †" if marked else line.title, *line.cells, *map(front.said, line.verdicts)]


def _more(head: Headline) -> dict[str, str]:
    """Verdicts that the table has no column for, by workload."""
    told: dict[str, dict[str, list[str]]] = {}
    for one in front.of_one_workload(head):
        told.setdefault(one.question.workloads[0], {}).setdefault(one.said, []).append(one.title)
    return {name: ", ".join(f"{said} ({', '.join(some)})" for said, some in own.items()) for name, own in told.items()}


def _pictures(data: Dataset, folder: str) -> str:
    """The two pictures as HTML, light or dark as the reader's page."""
    told = values(data)
    first, *rest = (one for one in told["seconds"] if one["seconds"] is not None)
    others = f", the slowest {rest[-1]['title']} in {rest[-1]['seconds']:g} s" if rest else ""
    said = {
        "seconds": f"Bars of seconds to a training return on {told['workload']}. {first['title']} in {first['seconds']:g} s"
        f"{others}.",
        "curves": f"Learning curves of the same runs on {told['workload']}: training return over seconds, with bands.",
    }
    return "\n".join(
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{folder}/{name}-dark.png">'
        f'<img src="{folder}/{name}.png" width="{WIDTH}"\nalt="{html.escape(text)}"></picture>'
        for name, text in said.items()
    )


def replaced(page: str, new: str) -> str:
    """A page with other results.

    Raises
    ------
    ValueError
        where the marks are not there, once each and in order.
    """
    before, found, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended or BEGIN in rest or END in after:
        raise ValueError(f"has no place for results: it needs the lines {BEGIN} and {END}, once each")
    return before + new + after


def stale(data: Dataset, folder: Path) -> str | None:
    """What of the pictures' folder is not what the bundles say, in a few words; None: nothing. No picture is drawn for it."""
    for name in names(data):
        if not (folder / name).is_file():
            return f"{folder / name} is missing"
    told = json.loads((folder / VALUES).read_text(encoding="utf-8"))
    where = _differs(told, values(data))
    return None if where is None else f"{folder / VALUES} has another value at {where}"


def _differs(one: object, other: object, place: str = "") -> str | None:
    """Where two values of JSON differ by more than rounding; None: nowhere."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs = [(one[key], other[key], f"{place}/{key}") for key in one]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(a, b, f"{place}/{at}") for at, (a, b) in enumerate(zip(one, other, strict=True))]
    elif isinstance(one, float) and isinstance(other, float):
        return None if abs(one - other) <= CLOSE * max(abs(one), abs(other)) else place
    else:
        return None if one == other else place
    return next((found for a, b, where in pairs if (found := _differs(a, b, where)) is not None), None)


def write_pictures(data: Dataset, out: Path) -> bool:
    """Write the pictures and their values into a folder; False where no two systems were compared."""
    shown = columns(data)
    if not shown:
        return False
    out.mkdir(parents=True, exist_ok=True)
    told = values(data)
    (out / VALUES).write_text(json.dumps(told, indent=0) + "\n", encoding="utf-8")
    for ending, style in STYLES.items():
        with style.applied():
            _save(draw([_bars(shown[0], told["seconds"])], style, HEIGHT_IN), out / f"seconds{ending}.png")
            _save(draw([_curves(shown[0], told["curves"])], style, HEIGHT_IN), out / f"curves{ending}.png")
            if cells := _map(data):
                _save(draw(cells, style, HEIGHT_IN * 0.8, len(cells)), out / f"{MAP}{ending}.png")
    return True


def names(data: Dataset) -> list[str]:
    """Files that `write` makes."""
    made = [*FILES, *([MAP] if _map(data) else [])]
    return [VALUES, *(f"{name}{ending}.png" for name in made for ending in STYLES)]


def _map(data: Dataset) -> list[Panel]:
    return [panel for view in Mapped.all(data) for panel in view.panels(MAP_CELLS)]


def values(data: Dataset) -> dict[str, Any]:
    """Everything that is drawn: of each system its seconds and counts, and its curve with the band."""
    column = columns(data)[0]
    seconds = []
    for bar in sorted(column.bars.values(), key=lambda bar: (bar.seconds is None, bar.seconds or bar.spent_s)):
        title = SHORT.get(bar.system, bar.title.partition(" (")[0])
        told = dict(zip(("seconds", "spent"), rounded([bar.seconds, bar.spent_s]), strict=True))
        seconds.append({"system": bar.system, "title": title, **told, "reached": bar.reached, "runs": bar.runs})
    return {"workload": column.workload, "machine": column.machine, "seconds": seconds, "curves": _medians(data, column)}


def _medians(data: Dataset, column: Column) -> list[dict[str, Any]]:
    frame = data.series["curves-training"]
    frame = frame[(frame["workload"] == column.workload) & (frame["machine"] == column.machine) & (frame["options"] == "")]
    found = []
    for system in first_runs(column.bars):
        runs = [run for _, run in frame[frame["system"] == system].groupby(["session", "block"])]
        if runs:
            points = band(runs, EARLIEST["seconds"])
            kept = {name: rounded(points[name]) for name in ("seconds", "median", "low", "high")}
            found.append({"system": system, "runs": len(runs), **kept})
    return found


def _bars(column: Column, shown: Sequence[dict[str, Any]]) -> Panel:
    """A bar a system, the quickest on top; that of a system of which no run got there is hatched and as long as the longest."""
    most = max(one["seconds"] or 0 for one in shown)
    curves = []
    for one in shown:
        missed = f" ({one['reached']}/{one['runs']})" if one["reached"] < one["runs"] else ""
        value = number(one["seconds"]) if one["seconds"] else f"> {number(one['spent'])}"
        told = {"name": one["title"], "x": [one["seconds"] or most], "y": [one["title"]], "text": [f"{value} s{missed}"]}
        hatch = "" if one["seconds"] else "///"
        curves.append(Curve(**told, colour=COLOURS.get(one["system"], GREY), legend=False, hatch=hatch))
    said = Axis(f"seconds to a mean return of {column.target:g}")
    return Panel(f"{column.workload}: time to the return", said, Axis(""), curves, "bars")


def _curves(column: Column, shown: Sequence[dict[str, Any]]) -> Panel:
    """Medians with the middle half of the runs, TianJi on top."""
    names = {REFERENCE: "TianJi, strict", RELAXED: "TianJi, relaxed", "sb3": "Stable-Baselines3", "rllib": "RLlib"}
    others = f"{sum(one['system'] not in names for one in shown)} others"
    lines = {"sb3": "--", "rllib": ":"}
    curves = [
        Curve(
            name=names.get(one["system"], others),
            x=one["seconds"],
            y=one["median"],
            low=one["low"],
            high=one["high"],
            colour=COLOURS.get(one["system"], GREY),
            line=lines.get(one["system"], "-"),
        )
        for one in sorted(shown, key=lambda one: (one["system"] in COLOURS, one["system"] == REFERENCE))
    ]
    title = f"{column.workload}: mean return of 100 episodes"
    return Panel(title, Axis("seconds from the first step", log=True), Axis(""), curves, "lines", column.target)


def _save(figure: Figure, file: Path) -> None:
    figure.savefig(file)
    plt.close(figure)
    # A palette takes a third of the bytes.
    with Image.open(file) as drawn:
        few = drawn.convert("RGB").quantize(PALETTE, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
