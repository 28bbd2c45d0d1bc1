"""How systems are drawn, everywhere: a colour, a line and a marker each.

Colours are those of Okabe and Ito ("Color Universal Design", 2008), which people with any kind of colour vision tell apart;
line and marker tell systems apart in grey.
"""

from __future__ import annotations

from typing import NamedTuple

from suites.scaling.analysis import COPIES
from suites.statistics.summary import AGAIN

ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"
INK, GREY, PALE = "#111111", "#57534e", "#8a8a8a"
DASHED = (0, (4, 3))

Line = str | tuple[int, tuple[int, ...]]


class Look(NamedTuple):
    """Of one system."""

    colour: str
    line: Line
    marker: str
    """Empty for ceilings: they are lines, not systems that run."""


LOOKS: dict[str, Look] = {
    "tianji": Look(VERMILION, "-", "o"),
    "tianji-as-published": Look(ORANGE, "-.", "h"),
    "tianji-relaxed": Look(ORANGE, "--", "D"),
    "tianji-one-sided": Look(SKY, "-.", "P"),
    "tianji-unbalanced": Look(PURPLE, ":", "X"),
    "tianji-one-learner": Look(ORANGE, "--", "D"),
    "tianji-curve": Look(SKY, "-.", "P"),
    "sync": Look(GREY, "--", "d"),
    "xingtian": Look(PURPLE, "-", "s"),
    "rllib": Look(BLUE, "-", "^"),
    "rllib-multi-learner": Look(GREEN, "--", "v"),
    "sb3": Look(GREEN, "-", "v"),
    "ray-store": Look(BLUE, "-", "^"),
    "mp-queue": Look(GREEN, "-", "v"),
    "pyzmq": Look(ORANGE, "--", "X"),
    "memcpy": Look(INK, "--", ""),
    "raw-tcp": Look(GREY, "-.", ""),
    "libzmq": Look(PALE, ":", ""),
    "tianji-copies": Look(INK, ":", ""),
    "xingtian-copies": Look(PALE, (0, (6, 2, 1, 2)), ""),
}
OTHER = Look(SKY, "-", "x")


def look(label: str) -> Look:
    """Of a system, or of its second run; of copies that nobody knows a dotted line."""
    known = LOOKS.get(label.removesuffix(AGAIN))
    if known is not None:
        return known
    return OTHER._replace(line=":", marker="") if label.endswith(COPIES) else OTHER
