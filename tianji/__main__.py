"""`python -m tianji train|evaluate|check|export|plan|disciplines|keys`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from programs.cli import OneLineParser, run
from programs.completion import add_completion
from tianji import __version__
from tianji.commands import check, disciplines, evaluate, export, keys, plan, train


def parser() -> OneLineParser:
    """The command line."""
    top = OneLineParser(prog="tianji", description="Train Gymnasium environments with decoupled actors, buffer and learner.")
    top.add_argument("--version", action="version", version=f"tianji {__version__}", help="print the version and exit")
    add_completion(top)
    commands = top.add_subparsers(dest="command", required=True, metavar="train|evaluate|check|export|plan|disciplines|keys")
    for command in (train, evaluate, check, export, plan, disciplines, keys):
        command.add(commands)
    return top


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    return int(options.run(options))


def console() -> int:
    """The `tianji` command."""
    return run("tianji", main)


if __name__ == "__main__":
    sys.exit(console())
