"""`tianji keys`: make the key file of a run between hosts."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from programs.cli import DONE, ConfigError

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji`."""
    one = commands.add_parser("keys", help="make the key file that encrypts a run between hosts")
    one.set_defaults(run=keys)
    one.add_argument("file", type=Path, metavar="FILE", help="a new file, which only you can read; copy it to every host")


def keys(options: Namespace) -> int:
    """Make a run's key file."""
    from tianji.channel.base import ChannelError
    from tianji.channel.security import Keys

    try:
        Keys.generate().write(options.file)
    except ChannelError as error:
        raise ConfigError(f"keys: {error}") from None
    print(f"{options.file}: new keys; anyone who has this file can join the run, so copy it to its hosts and nowhere else")
    return DONE
