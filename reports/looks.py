"""How systems are drawn, everywhere: a colour, a line and a marker each.

The colours are those of Okabe and Ito ("Color Universal Design", 2008). People with any kind of colour vision tell them apart.
In grey, lines and markers tell systems apart.
"""

from __future__ import annotations

from typing import NamedTuple

from suites.scaling.analysis import COPIES
from suites.statistics.summary import AGAIN

ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"
INK = "#111111"
"""Of text, axes and ceilings: an SVG has the colour of the text around it in its place."""
GREY = "#7d7d7d"
"""As legible on white as on black; of what was fitted instead of measured, too."""
DASHED = (0, (4, 3))
LONG, DOTTED, BROKEN = (0, (7, 2)), (0, (1.5, 1.2)), (0, (5, 1.5, 1, 1.5, 1, 1.5))
"""Lines that are told apart in grey."""

Line = str | tuple[int, tuple[float, ...]]


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
    "tianji-fan-in-2": Look(GREEN, "-.", "p"),
    "tianji-fan-in-4": Look(GREEN, "--", "v"),
    "sync": Look(GREY, "--", "d"),
    "sync-one": Look(GREY, "-.", "D"),
    "xingtian": Look(PURPLE, LONG, "s"),
    "rllib": Look(BLUE, DOTTED, "^"),
    "rllib-multi-learner": Look(GREEN, "--", "v"),
    "rllib-old": Look(BLUE, LONG, "d"),
    "rllib-appo": Look(BLUE, "--", "<"),
    "rllib-impala": Look(BLUE, "-.", ">"),
    "sample-factory": Look(SKY, LONG, "s"),
    "torchrl": Look(SKY, DOTTED, "<"),
    "sb3": Look(GREEN, BROKEN, "v"),
    "sbx": Look(GREEN, "-.", "p"),
    "ray-store": Look(BLUE, "-", "^"),
    "mp-queue": Look(GREEN, "-", "v"),
    "pyzmq": Look(ORANGE, "--", "X"),
    "memcpy": Look(INK, "--", ""),
    "raw-tcp": Look(GREY, "-.", ""),
    "tcp-kept": Look(INK, "-.", ""),
    "libzmq": Look(GREY, ":", ""),
    "libzmq-curve": Look(GREY, (0, (4, 2)), ""),
    "tianji-copies": Look(INK, ":", ""),
    "xingtian-copies": Look(GREY, (0, (6, 2, 1, 2)), ""),
}
OTHER = Look(SKY, "-", "x")


def look(label: str) -> Look:
    """Look up a system, or its second run. Unknown copies get a dotted line, other unknown systems `OTHER`."""
    known = LOOKS.get(label.removesuffix(AGAIN))
    if known is not None:
        return known
    return OTHER._replace(line=":", marker="") if label.endswith(COPIES) else OTHER
