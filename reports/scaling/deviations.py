"""Where systems deviate from the matched configuration on nodes: what would be said for every number of nodes, once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

ALL = "All systems"


Pattern = tuple[str, int]
"""Of lines that differ by their numbers alone: the text without them, and the place among lines of a run with the same text."""
Lines = dict[Pattern, dict[int, str]]
"""By number of nodes."""


def gathered(runs: Iterable[tuple[int, list[str]]]) -> Lines:
    """The lines of a system's runs, each run with its number of nodes."""
    lines: Lines = {}
    for nodes, told in runs:
        texts = [re.sub(r"\d+", "#", line) for line in told]
        for at, (text, line) in enumerate(zip(texts, told, strict=True)):
            lines.setdefault((text, texts[:at].count(text)), {})[nodes] = line
    return lines


def told_once(found: dict[str, Lines]) -> list[dict[str, Any]]:
    """Of each system, by its title; what all of them say stands first. Of lines that differ in numbers alone, that of the most
    nodes."""
    first = next(iter(found.values()), {})
    shared = [pattern for pattern in first if len(found) > 1 and all(pattern in lines for lines in found.values())]
    everywhere = {pattern: {n: line for lines in found.values() for n, line in lines[pattern].items()} for pattern in shared}
    told = {ALL: everywhere} if everywhere else {}
    for title, lines in found.items():
        told[title] = {pattern: by_nodes for pattern, by_nodes in lines.items() if pattern not in everywhere}
    return [{"system": title, "lines": [*map(_of_most_nodes, lines.values())]} for title, lines in told.items()]


def _of_most_nodes(lines: dict[int, str]) -> str:
    """A line of which there may be one for each number of nodes."""
    most = max(lines)
    others = [str(n) for n in sorted(lines) if lines[n] != lines[most]]
    if not others:
        return lines[most]
    listed = " and ".join(filter(None, (", ".join(others[:-1]), others[-1])))
    return f"{lines[most]} (on {most} nodes; on {listed} with their numbers)"
