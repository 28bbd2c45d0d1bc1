"""Whether the code that a run's folder names may be imported."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from programs.cli import ConfigError
from tianji import held
from tianji.config import TrainConfig

TRUST = "import the code (MODULE:CLASS) that the run's folder names: only for a folder that you know"


def check_trust(config: TrainConfig, folder: Path, said: Iterable[str | None], *, trusted: bool) -> None:
    """Check that the code which a run's folder names may be imported.

    The user allows it with `--trust`, or by naming the same code on the command line.

    Raises
    ------
    ConfigError
        if it may not.
    """
    code = [name for name in code_of(config) if name not in set(said)]
    if code and not trusted:
        raise ConfigError(
            f"{folder}: its configuration names code that would be imported, {' and '.join(code)}; "
            "say --trust if you know this folder"
        )


def code_of(config: TrainConfig) -> list[str]:
    """Code of the user's own that settings name, as MODULE:NAME."""
    factory = config.network.factory
    wrappers = [name for name in config.environment.wrapper_names if not name.startswith("gymnasium.")]
    named = [config.env, *([factory] if isinstance(factory, str) else []), *wrappers]
    return [name for name in named if ":" in name and not held.is_held(name)]
