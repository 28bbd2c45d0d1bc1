"""Shell completion: `--print-completion SHELL` prints a script that completes a command's arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from programs.cli import ConfigError

SHELLS = ("bash", "zsh", "tcsh")


class PrintCompletion(argparse.Action):
    """Prints the completion script of its parser and exits, as `--version` does."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        about = "print a completion script for this shell and exit"
        super().__init__(option_strings, argparse.SUPPRESS, default=argparse.SUPPRESS, choices=SHELLS, help=about)

    def __call__(self, parser: argparse.ArgumentParser, namespace: object, values: Any, option: str | None = None) -> None:
        try:
            import shtab
        except ImportError:
            raise ConfigError(f"{option}: shtab is not installed; pip install shtab brings it") from None
        for action in _actions(parser):
            if action.type is Path and not hasattr(action, "complete"):
                is_folder = str(action.metavar).startswith("DIR")
                action.complete = shtab.DIRECTORY if is_folder else shtab.FILE  # type: ignore[attr-defined]
        print(shtab.complete(parser, values))
        parser.exit()


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Give a command the option `--print-completion`."""
    parser.add_argument("--print-completion", action=PrintCompletion)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All arguments of a command and of its sub-commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
