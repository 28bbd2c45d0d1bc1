"""`python -m gate`: `tianji-bench gate` alone, where only this package's few requirements are installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gate import command
from programs.cli import OneLineParser, run


def main(arguments: Sequence[str]) -> int:
    parser = OneLineParser(prog="python -m gate", description=f"{command.ABOUT[0].upper()}{command.ABOUT[1:]}.")
    command.arguments(parser)
    return command.run(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(run("gate", main))
