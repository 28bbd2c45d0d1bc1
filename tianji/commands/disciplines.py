"""`tianji disciplines`: print the table of all disciplines."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from programs.cli import DONE

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji`."""
    commands.add_parser("disciplines", help="who waits for whom: every discipline, and its laws").set_defaults(run=disciplines)


def disciplines(options: Namespace) -> int:
    """Print the table of all disciplines."""
    from tianji.disciplines.registry import table

    print("\n".join(table()))
    return DONE
