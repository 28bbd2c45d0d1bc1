"""How numbers and tables are written as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reports import escaping
from reports.table import Row


def number(value: float | None, digits: int = 3) -> str:
    """A value with three significant digits and no exponent; a dash where there is none."""
    if value is None:
        return "-"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:#.{digits}g}"
    return text if "e" not in text else f"{value:.6f}"


def with_interval(row: Row | None, suffix: str = "", scale: float = 1.0) -> str:
    """`3.21 [3.1, 3.4]`; the interval is left out where there is none."""
    if row is None or row["value"] is None:
        return "-"
    text = number(row["value"] * scale) + suffix
    if row["ci_low"] is not None:
        text += f" [{number(row['ci_low'] * scale)}, {number(row['ci_high'] * scale)}]"
    return text


def inverse(row: Row | None) -> Row | None:
    """The reciprocal of a ratio and of its interval."""
    if row is None or row["value"] is None:
        return None
    low, high = row["ci_low"], row["ci_high"]
    interval = {"ci_low": None, "ci_high": None} if low is None else {"ci_low": 1 / high, "ci_high": 1 / low}
    return row | {"value": 1 / row["value"]} | interval


def counted(count: int, noun: str) -> str:
    """`1 block`, `5 blocks`."""
    return f"{count} {noun}{'s' * (count != 1)}"


def how_many(counts: Iterable[int]) -> str:
    """`5`, or `4 to 5`."""
    found = {int(n) for n in counts} or {0}
    return " to ".join(str(n) for n in sorted({min(found), max(found)}))


def ends(ratios: Sequence[float]) -> str:
    """`1.20x`, or `1.20x to 3.00x`, of ratios with the least first."""
    return " to ".join(f"{number(one)}x" for one in dict.fromkeys((ratios[0], ratios[-1])))


def size_text(size_bytes: int) -> str:
    """`64 KiB`."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:g} {name}"
    return f"{size_bytes} B"


def seconds_text(seconds: float) -> str:
    """Three digits in the unit that fits."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{number(seconds / unit)} {name}"
    return f"{number(seconds / 1e-9)} ns"


def pieces(text: str) -> list[str]:
    """A cell as pieces between which a line may break: a value, its interval, and what comes after."""
    return [piece for piece in re.split(r" (?=\[)|(?<=\]) ", text) if piece]


def pipe_table(heads: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """A table of Markdown, without an end of line."""

    def row(texts: Iterable[object]) -> str:
        return "| " + " | ".join(map(escaping.markdown, texts)) + " |"

    heads = list(heads)
    return "\n".join([row(heads), "|" + " --- |" * len(heads), *map(row, lines)])
