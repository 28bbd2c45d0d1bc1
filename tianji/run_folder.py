"""A run's folder: its configuration, the state that it can be resumed from, its policy and what came of it.

    config.json                    the complete configuration
    state/learner-g0.safetensors   of each group's learner
    progress.json                  seconds, episodes and the latest returns when that was stored
    policy.safetensors             the latest policy that was handed out
    result.json                    when the run has ended
    events.out.tfevents...         for TensorBoard

Every file but the last is replaced whole: a crash leaves the one before. Nothing in here can run code when it is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from safetensors import SafetensorError, safe_open

from programs.cli import ConfigError
from tianji.algorithms.state import State
from tianji.config import TrainConfig
from tianji.settings import convert
from tianji.tensors import save_tensors

SCHEMA = 2
"""Of a learner's state; a file of another one is refused."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place when all is written and on the disk.

    A failure leaves `path` as it was, and nothing beside it.
    """
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, data: Any) -> None:
    """Replace a file by this data."""
    with replacing(path) as place:
        place.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Data of a file, or a `ConfigError` that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; is this the folder of a run?") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path}: damaged: {error}") from None


def write_state(path: Path, state: State) -> None:
    """Replace a learner's state: arrays as safetensors, values as JSON in the file's metadata."""
    with replacing(path) as place:
        save_tensors(state.arrays, place, {"schema": str(SCHEMA), "values": json.dumps(state.values)})


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A learner's state, whose arrays are read when they are asked for, and its values.

    Raises
    ------
    ConfigError
        when there is none, or it is damaged or of another version.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("schema") != str(SCHEMA):
                raise ConfigError(f"{path}: state of schema {metadata.get('schema')}; this version reads {SCHEMA}")
            yield file, json.loads(metadata["values"])
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; nothing was stored to go on from") from None
    except (SafetensorError, OSError, KeyError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path}: damaged state: {error}") from None


def read_state(path: Path) -> State:
    """A learner's state; raises as `_opened` does."""
    with _opened(path) as (file, values):
        return State({name: file.get_tensor(name) for name in file.keys()}, values)  # noqa: SIM118 (not a dict)


def read_values(path: Path) -> dict[str, Any]:
    """Only the values of a learner's state."""
    with _opened(path) as (_, values):
        return values


def stored_parameters(path: Path) -> int:
    """Length of the vector of weights in a learner's state."""
    with _opened(path) as (file, _):
        return int(file.get_slice("weights").get_shape()[0])


def state_path(folder: Path, group: int) -> Path:
    """Where a group's learner stores its state."""
    return folder / f"learner-g{group}.safetensors"


def check_new(path: Path) -> None:
    """That a run may begin in this folder; `ConfigError` where something else is."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"{path}: exists and is not empty; name a new folder")


class Tally(Struct, frozen=True):
    """What a run that is resumed counts on from."""

    seconds: float
    """Of training."""
    episodes: int
    returns: list[float]
    """The latest."""


class RunFolder:
    """Paths of a run, and what it was told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.state = path / "state"
        self.progress = path / "progress.json"
        self.policy = path / "policy.safetensors"
        self.result = path / "result.json"

    def create(self, config: TrainConfig) -> None:
        """Begin a run here; `ConfigError` where something else is."""
        check_new(self.path)
        try:
            self.state.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from None
        write_json(self.config, msgspec.to_builtins(config))

    def read_config(self) -> TrainConfig:
        """What the run was told; `ConfigError` where this is no run's folder."""
        data = read_json(self.config)
        old = data.pop("lag_bound", None) if isinstance(data, dict) else None
        config = convert(data, TrainConfig, str(self.config))
        if old is None:
            return config
        # Earlier versions counted optimizer steps.
        rounds = -(-old // config.round_updates) if isinstance(old, int) else old
        return convert({**data, "lag_rounds": rounds}, TrainConfig, str(self.config))

    def save_tally(self, tally: Tally) -> None:
        """Replace what was stored of how far the run is."""
        write_json(self.progress, msgspec.to_builtins(tally))

    def read_tally(self) -> Tally:
        """How far the run was; `ConfigError` where that was not stored, or is damaged."""
        return convert(read_json(self.progress), Tally, str(self.progress))
