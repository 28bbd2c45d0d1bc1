"""Environments of systems whose dependencies clash with this project's, or are not to be there: an interpreter for each.

`nox -s environment -- NAME` makes one in a checkout, from the extra of this name and the exact versions of `NAME.txt` here.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".nox"


def python(name: str) -> Path:
    """Interpreter of an environment, whether it has been made or not."""
    return FOLDER / f"environment-{name}" / "bin" / "python"


def missing(name: str) -> str | None:
    """Reason why an environment cannot be used, with the command that makes it; None if it can."""
    # Installing comes after the interpreter is there, and this file is written after that.
    made = python(name).parents[1] / "made"
    return None if made.exists() else f"its environment is not made; run `nox -s environment -- {name}`"
