"""The results in a README, made of bundles: who wins, by how much, where TianJi loses, and two pictures."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path

from reports import front, picture, words
from reports.claims import Judged
from reports.dataset import Dataset
from reports.headline import Headline, headline

BEGIN = "<!-- results: made by `nox -s readme`; not by hand -->"
END = "<!-- end of results -->"
WIDTH = "49%"
"""How wide each of the pictures is shown."""
CLOSE = 1e-3
"""Share by which a value in `pictures.json` may differ: other processors round otherwise."""


def block(data: Dataset, judged: Sequence[Judged], pictures: str) -> str:
    """The README's results as Markdown.

    Parameters
    ----------
    pictures
        path of the pictures' folder from the README.
    """
    shown, head = front.columns(data), headline(data)
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
        heads=["system", *(one.workload for one in shown), *(f"{name.upper()}: TianJi is" for name in front.algorithms(shown))],
        lines=[_texts(line) for line in front.lines(data, shown, head)],
        marks=sorted({one.mark for answer in head.answers for one in answer.verdicts if one.mark}),
        more=_more(head),
        people=[
            f"{one.figure} as fast as {one.title}"
            for answer in head.answers[:1]
            for one in answer.verdicts
            if one.opponent in front.PEOPLE_USE and not one.missing
        ],
        tuned=front.tuned(data, shown),
        waiting=front.waiting(data),
        papers=front.papers(judged),
        dates=sorted(str(date) for date in commits.values() if date),
        pictures=_pictures(data, pictures) if shown else "",
    )


def _texts(line: front.Line) -> list[str]:
    marked = any(one is not None and one.mark for one in line.verdicts)
    cells = ["-" if cell is None else cell.words for cell in line.cells]
    return [f"{line.title} †" if marked else line.title, *cells, *map(front.said, line.verdicts)]


def _more(head: Headline) -> list[str]:
    """Verdicts that the table has no column for: a sentence for each question."""
    told: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in front.of_one_workload(head):
        place = one.question.workloads[0], one.question.algorithm.upper()
        told.setdefault(place, {}).setdefault(one.said, []).append(one.title)
    return [
        f"On {workload} TianJi is, with {algorithm}: {'; '.join(f'{said} ({one})' for said, one in _listed(found))}."
        for (workload, algorithm), found in told.items()
    ]


def _listed(found: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(said, ", ".join(titles)) for said, titles in found.items()]


def _pictures(data: Dataset, folder: str) -> str:
    """The two pictures as HTML, light or dark as the reader's page."""
    told = picture.values(data)
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
    for name in picture.names(data):
        if not (folder / name).is_file():
            return f"{folder / name} is missing"
    told = json.loads((folder / picture.VALUES).read_text(encoding="utf-8"))
    where = _differs(told, picture.values(data))
    return None if where is None else f"{folder / picture.VALUES} has another value at {where}"


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
