"""`tianji export`: a stored policy as an ONNX graph."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from programs.cli import DONE, ConfigError
from tianji.commands.stored import add_policy, stored

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji`."""
    one = commands.add_parser("export", help="write a policy as an ONNX graph")
    one.set_defaults(run=export)
    add_policy(one)
    one.add_argument("--onnx", type=Path, required=True, metavar="FILE", help="a new file")


def export(options: Namespace) -> int:
    """Write a stored policy as ONNX."""
    from tianji.run.export import export as write

    if options.onnx.exists():
        raise ConfigError(f"--onnx {options.onnx}: exists; name a new file")
    if not options.onnx.absolute().parent.is_dir():
        raise ConfigError(f"--onnx {options.onnx}: there is no folder {options.onnx.parent}")
    policy, _ = stored(options, "export", (options.network,))
    write(policy, options.onnx)
    print(f"{options.onnx}: from features {policy.network.features} to the greedy action ({policy.network.actions})")
    return DONE
