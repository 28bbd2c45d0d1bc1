"""How text that came with a bundle is written where some of its characters mean something else, each in one place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from programs.characters import UNSEEN, visible

_LATEX = str.maketrans(
    {character: rf"\{character}" for character in "%&_#${}"}
    | {"≥": r"$\geq$", "<": r"$<$", ">": r"$>$"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)
_SPACE = re.compile(rf"[\s{UNSEEN}]")
_ARGUMENT = re.compile(r"[\[*]")
"""What the end of a line of a table before it would take for its own."""
_MARKDOWN = re.compile(r"[\\|]|<(?=[A-Za-z/!?])|(?<=\])\(")
"""What would end a cell, begin a tag or make a link."""
_FORMULA = re.compile(r"[=+@\t]|-(?!\Z|[\d.,]+x?( \[[-\d., ]+\])?\Z)")
"""What a spreadsheet would compute; but a dash, or a number, alone or with its interval, is what it is."""


def latex(value: Any) -> str:
    """Text as LaTeX would have it."""
    text = _SPACE.sub(" ", str(value)).translate(_LATEX)
    return "{}" + text if _ARGUMENT.match(text) else text


def markdown(value: Any) -> str:
    """Text as a line or a cell of Markdown would have it."""
    return _MARKDOWN.sub(r"\\\g<0>", _SPACE.sub(" ", str(value)))


def cell(value: Any) -> Any:
    """A value as a spreadsheet would have it: text that begins like a formula begins with an apostrophe."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if _FORMULA.match(text) else text


def csv(frame: pd.DataFrame, file: Path) -> None:
    """Write a frame as CSV."""
    columns = [
        column if pd.api.types.is_numeric_dtype(column) else pd.Series([*map(cell, column)], column.index, object, name)
        for name, column in frame.items()
    ]
    # By place, for two systems may have one title.
    safe = pd.concat(columns, axis=1) if columns else frame
    safe.rename(columns=cell).to_csv(file, index=False, float_format="%.6g")
