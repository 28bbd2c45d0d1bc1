"""Where systems deviate from the matched configuration on nodes: what would be said for every number of nodes, once."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from reports.scaling.lookup import Scaled
from suites.scaling.analysis import SUITE

ALL = "All systems"


class Pattern(NamedTuple):
    """Lines that differ by their numbers alone have the same."""

    text: str
    place: int
    """Among lines of one run that have the same text."""


Lines = dict[Pattern, dict[int, str]]
"""By number of nodes."""


def deviations(scaled: Scaled) -> list[dict[str, Any]]:
    """Of each system; what all of them say stands first. Of lines that differ in numbers alone, that of the most nodes."""
    found = _found(scaled)
    first = next(iter(found.values()), {})
    shared = [pattern for pattern in first if len(found) > 1 and all(pattern in lines for lines in found.values())]
    everywhere = {pattern: {n: line for lines in found.values() for n, line in lines[pattern].items()} for pattern in shared}
    told = {ALL: everywhere} if everywhere else {}
    for label, lines in found.items():
        told[scaled.title(label)] = {pattern: by_nodes for pattern, by_nodes in lines.items() if pattern not in everywhere}
    return [{"system": name, "lines": [*map(_of_most_nodes, lines.values())]} for name, lines in told.items()]


def _found(scaled: Scaled) -> dict[str, Lines]:
    """By system, in the order in which they are shown."""
    found: dict[str, Lines] = {}
    for m in (b.manifest for b in scaled.data.bundles if b.manifest.suite == SUITE and not b.manifest.replica):
        if (m.workload, m.testbed, m.scaling) == tuple(scaled.setting):
            lines = found.setdefault(m.system, {})
            texts = [re.sub(r"\d+", "#", line) for line in m.deviations]
            for at, (text, line) in enumerate(zip(texts, m.deviations, strict=True)):
                lines.setdefault(Pattern(text, texts[:at].count(text)), {})[m.nodes] = line
    return {label: found[label] for label in scaled.shown if label in found}


def _of_most_nodes(lines: dict[int, str]) -> str:
    """A line of which there may be one for each number of nodes."""
    most = max(lines)
    others = [str(n) for n in sorted(lines) if lines[n] != lines[most]]
    if not others:
        return lines[most]
    listed = " and ".join(filter(None, (", ".join(others[:-1]), others[-1])))
    return f"{lines[most]} (on {most} nodes; on {listed} with their numbers)"
