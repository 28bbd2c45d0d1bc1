"""The settings of a run from the command line: options, a file, `--set`, or the run that is resumed."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import msgspec

from programs.cli import ConfigError
from tianji.commands.trust import check_trust
from tianji.config import TrainConfig
from tianji.settings import assign, constraint, convert, read_toml

NAMED = (
    "env", "algo", "actors", "envs_per_actor", "groups", "world", "seed", "stop_return", "stop_steps", "stop_seconds", "device",
    "launcher", "ray_address"
)  # fmt: skip
"""Settings that have their own command-line options."""
MAY_CHANGE = (
    "stop_return", "stop_steps", "stop_seconds", "device", "updater", "channel", "launcher", "ray_address", "ray_placement",
    "placement", "encrypt", "learner_threads", "restarts", "silence_seconds", "replace_silent", "not_finite",
    "snapshot_every_steps", "checkpoint_seconds", "checkpoint_replay", "chunk_slots", "batch_chunks", "loggers", "evaluation"
)  # fmt: skip
"""Settings that may be changed when a run is resumed."""


def add_setting(parser: ArgumentParser, name: str, about: str, metavar: str | None = None, default: str | None = None) -> None:
    """Add the option of a setting; its type, choices, range and default are those of `TrainConfig`.

    Parameters
    ----------
    default
        what the help says of the default, where the command line has one of its own.
    """
    limits = constraint(TrainConfig, name)
    if default is None:
        value = next(field.default for field in msgspec.structs.fields(TrainConfig) if field.name == name)
        default = f"{value:,}" if isinstance(value, int) else str(value)
    parser.add_argument(
        "--" + name.replace("_", "-"),
        type=limits.kind,
        choices=limits.choices or None,
        metavar=metavar,
        help=f"{', '.join(filter(None, (about, limits.bounds)))} (default: {default})",
    )


def settings(options: Any) -> TrainConfig:
    """Settings from the defaults, the file, the named options and `--set`; later ones win."""
    if getattr(options, "resume", None) is not None:
        return _resumed(options)
    file = getattr(options, "config", None)
    data: dict[str, Any] = read_toml(file) if file else {}
    for name in NAMED:
        if getattr(options, name, None) is not None:
            data[name] = getattr(options, name)
    for argument in getattr(options, "env_arg", ()):
        if "=" not in argument:
            raise ConfigError(f"--env-arg {argument}: write it as NAME=VALUE, for instance continuous=true")
        assign(data, f"environment.args.{argument}")
    for assignment in options.set:
        assign(data, assignment)
    if "env" not in data:
        raise ConfigError(
            "train: --env is missing; name a Gymnasium environment, for instance CartPole-v1, or your own as module:Class"
        )
    return convert(data, TrainConfig, str(file) if file else "train")


def _resumed(options: Any) -> TrainConfig:
    """Settings that a run started with, with the permitted changes."""
    from tianji.run_folder import RunFolder

    for name in ("out", "config", "env_arg"):
        if getattr(options, name, None):
            raise ConfigError(
                f"--{name.replace('_', '-')} and --resume: a run is resumed in its own folder, with its own settings"
            )
    before = RunFolder(options.resume).read_config()
    data: dict[str, Any] = msgspec.to_builtins(before)
    for name in NAMED:
        if getattr(options, name) is not None:
            data[name] = getattr(options, name)
    for assignment in options.set:
        assign(data, assignment)
    config = convert(data, TrainConfig, f"--resume {options.resume}")
    said = [options.env, *(one.partition("=")[2].strip("'\"") for one in options.set)]
    check_trust(before, options.resume, said, trusted=options.trust)
    for name in TrainConfig.__struct_fields__:
        if getattr(config, name) != getattr(before, name) and name not in MAY_CHANGE:
            raise ConfigError(
                f"--resume {options.resume}: {name} was {getattr(before, name)!r} when this run began, and stays so; "
                f"what may change: {', '.join(MAY_CHANGE)}"
            )
    linear = getattr(config.hyperparameters, "learning_rate_schedule", "constant") == "linear"
    if linear and config.stop_steps != before.stop_steps and config.stop_steps > config.horizon_steps:
        raise ConfigError(
            f"--resume {options.resume}: its learning rate falls to zero at {config.horizon_steps:,} steps (horizon_steps), so "
            "further steps would change nothing; begin a new run with the larger stop_steps"
        )
    return config
