"""Where other pipes move messages faster than TianJi's channel, and how they compare between hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from reports import bounds
from reports.dataset import Dataset
from reports.messages import Traffic
from reports.table import Row
from reports.verdict import SAME

FAST_LINK = "samples-2hosts"
"""Where messages between hosts are not limited by the link."""


class Slower(NamedTuple):
    """A pipe that moves messages faster than TianJi's channel, in one place."""

    place: str
    where: str
    """The place in words."""
    title: str
    worst: Row
    """The lowest of the ratios whose whole interval is below 1; its interval is widened for all that it was picked from."""
    below: int
    """Number of ratios to this pipe in this place whose whole interval is below 1."""
    ratios: int

    @property
    def same(self) -> bool:
        """Whether even the worst ratio is no difference that matters."""
        return bool(self.worst["value"] >= 1 / SAME)


class Between(NamedTuple):
    """A pipe between two hosts with a fast link, and TianJi's channel beside it."""

    title: str
    ends: list[Row]
    """Mean ratios of goodput with the fewest and with the most explorers."""
    slower: Slower | None


def losses(data: Dataset) -> tuple[list[Slower], list[Between]]:
    """Faster pipes, the largest gap first, and all pipes between two hosts."""
    found = Traffic.all(data)
    slower = sorted(_slower(found), key=lambda one: one.worst["value"])
    return slower, list(_between(found, {one.title: one for one in slower if one.place == FAST_LINK}))


def _between(places: Iterable[Traffic], slower: Mapping[str, Slower]) -> Iterator[Between]:
    for place in places:
        for label in place.competitors if place.name == FAST_LINK else ():
            if rows := [row for row in place.over_sizes(label) if row["ci_low"] is not None]:
                yield Between(place.title(label), [rows[0], rows[-1]], slower.get(place.title(label)))


def _slower(places: Iterable[Traffic]) -> Iterator[Slower]:
    found = [(traffic, label, traffic.ratios(label)) for traffic in places for label in traffic.competitors]
    cells = sum(len(rows) for _, _, rows in found)
    for traffic, label, rows in found:
        shown = [row for row in rows if row["ci_high"] is not None and row["ci_high"] < 1]
        if shown:
            worst = bounds.extreme(min(shown, key=lambda row: row["value"]), cells)
            yield Slower(traffic.name, str(traffic.description["title"]), traffic.title(label), worst, len(shown), len(rows))
