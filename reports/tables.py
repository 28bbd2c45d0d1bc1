"""How numbers and tables are written: as text, CSV, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd


def number(value: float | None, digits: int = 3) -> str:
    """A value with three significant digits and no exponent; a dash where there is none."""
    if value is None:
        return "-"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:#.{digits}g}"
    return text if "e" not in text else f"{value:.6f}"


def with_interval(row: dict[str, Any] | None, suffix: str = "", scale: float = 1.0) -> str:
    """`3.21 [3.1, 3.4]`; the interval is left out where there is none."""
    if row is None or row["value"] is None:
        return "-"
    text = number(row["value"] * scale) + suffix
    if row["ci_low"] is not None:
        text += f" [{number(row['ci_low'] * scale)}, {number(row['ci_high'] * scale)}]"
    return text


def inverse(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """The reciprocal of a ratio and of its interval."""
    if row is None or row["value"] is None:
        return None
    low, high = row["ci_low"], row["ci_high"]
    interval = {"ci_low": None, "ci_high": None} if low is None else {"ci_low": 1 / high, "ci_high": 1 / low}
    return row | {"value": 1 / row["value"]} | interval


def pipe_table(heads: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """A table of Markdown, without an end of line."""

    def row(texts: Iterable[object]) -> str:
        return "| " + " | ".join(str(text).replace("|", "\\|") for text in texts) + " |"

    heads = list(heads)
    return "\n".join([row(heads), "|" + " --- |" * len(heads), *map(row, lines)])


def markdown(frame: pd.DataFrame) -> str:
    """A frame as a table of Markdown."""
    return pipe_table(frame.columns, frame.itertuples(index=False)) + "\n"


_LATEX = {
    "≥": r"$\geq$",
    "<": r"$<$",
    ">": r"$>$",
    "%": r"\%",
    "&": r"\&",
    "_": r"\_",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}


def escape(value: Any) -> str:
    """Text as LaTeX would have it."""
    return "".join(_LATEX.get(c, c) for c in str(value))


def latex(frame: pd.DataFrame) -> str:
    """A booktabs tabular."""
    lines = [r"\begin{tabular}{" + "l" * len(frame.columns) + "}", r"\toprule"]
    lines += [" & ".join(escape(c) for c in frame.columns) + r" \\", r"\midrule"]
    lines += [" & ".join(escape(v) for v in line) + r" \\" for line in frame.itertuples(index=False)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def write(tables: dict[str, pd.DataFrame], out: Path) -> None:
    """Write each table three times."""
    folder = out / "tables"
    folder.mkdir(exist_ok=True)
    for name, frame in tables.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        (folder / f"{name}.md").write_text(markdown(frame), encoding="utf-8")
        (folder / f"{name}.tex").write_text(latex(frame), encoding="utf-8")
