"""A stored policy that a command is given: a file, or the folder of a run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from programs.cli import ConfigError
from tianji.commands.trust import TRUST, check_trust

if TYPE_CHECKING:
    from tianji.config import TrainConfig
    from tianji.policy import Policy


def add_policy(parser: ArgumentParser) -> None:
    """Add the arguments that name a policy."""
    parser.add_argument("policy", type=Path, metavar="RUN|FILE.safetensors", help="a run's folder, or a policy")
    parser.add_argument(
        "--network", metavar="MODULE:FUNCTION", help="what made the policy's network, if it was trained with network.factory"
    )
    parser.add_argument(
        "--best", action="store_true", help="of a run: the best policy in evaluation beside training, not the last one"
    )
    parser.add_argument("--trust", action="store_true", help=TRUST)


def stored(options: Namespace, command: str, said: Iterable[str | None]) -> tuple[Policy, TrainConfig | None]:
    """The policy, and the settings of its run if it is in a run's folder.

    Parameters
    ----------
    said
        code that the command line names, which may be imported.

    Raises
    ------
    ConfigError
        if there is none, or its folder names code that is not trusted.
    """
    from tianji.policy import load_policy
    from tianji.run_folder import RunFolder

    if not options.policy.exists():
        raise ConfigError(f"{command}: {options.policy}: no such run folder or policy file")
    run = RunFolder(options.policy) if options.policy.is_dir() else None
    config = None if run is None else run.read_config()
    factory = options.network
    if config is not None:
        if factory is None and isinstance(config.network.factory, str):
            # A run's configuration is as trusted as a file given with --config.
            factory = config.network.factory
        check_trust(config, options.policy, said, trusted=options.trust)
    if options.best and (run is None or not run.best.exists()):
        raise ConfigError(f"{command}: {options.policy}: there is no best policy; a run keeps one with evaluation.every_steps")
    return load_policy(options.policy if run is None else run.best if options.best else run.policy, factory), config
