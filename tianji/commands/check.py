"""`tianji check`: what an environment is, how fast it is, and what about it will hurt."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from programs.cli import DONE, ConfigError
from tianji.commands.settings import add_setting, settings

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji`."""
    one = commands.add_parser("check", help="try an environment: its spaces, its speed, its habits")
    one.set_defaults(run=check)
    one.add_argument("env", metavar="ID", help="as for train --env")
    one.add_argument(
        "--env-arg", action="append", default=[], metavar="NAME=VALUE", help="an argument of the environment's constructor"
    )
    add_setting(one, "algo", "the algorithm")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one setting, as for train")
    one.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="seconds for each measurement (default: %(default)s)"
    )


def check(options: Namespace) -> int:
    """Make the environment, play it, and say what was seen."""
    from tianji.run.checkup import lines
    from tianji.run.preview import first_line
    from tianji.run.training import check as check_run
    from tianji.run.training import settled

    if not 0 < options.seconds <= 3600:
        raise ConfigError(f"--seconds {options.seconds:g}: must be above 0, at most 3600")
    config = settings(options)
    description = check_run(config)
    config = settled(config, description)
    print(first_line(config, description), flush=True)
    for line in lines(config, description, options.seconds):
        print(line, flush=True)
    return DONE
