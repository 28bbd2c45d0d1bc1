"""Folder of a run: its configuration, checkpoints, policy and result.

    config.json                    the complete configuration
    state/learner-g0.safetensors   checkpoint of each group's learner
    state/learner-g0-before...     the checkpoint before
    state/episodes-g0.json         state of its actors' environments, in lockstep
    progress.json                  seconds, episodes and latest returns at the checkpoint
    policy.safetensors             the latest snapshot of the policy
    best.safetensors               the snapshot with the highest mean in evaluation beside training
    choice.json                    the discipline that the run chose, and why, if its discipline is `auto`
    result.json                    the result, once the run has ended
    events.out.tfevents...         curves for TensorBoard
    progress.csv                   the same curves as a table
    lock                           held by the process that trains in the folder
    traceback.txt                  traceback of an error that ended the run

Every file but the last two is replaced atomically, so that a crash leaves the earlier one. Reading a folder runs no code. But
a configuration can name code, `module:Class`, which is imported when the run is resumed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from safetensors import SafetensorError, safe_open

from programs.cli import ConfigError
from tianji.algorithms.state import Arrays, State
from tianji.config import TrainConfig
from tianji.disciplines.auto import Choice
from tianji.settings import convert
from tianji.tensors import regular, save_tensors

LARGEST_JSON = 16 << 20
SCHEMA = 3
"""Version of a checkpoint's format. Files of other versions are refused."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Context that gives a temporary file, which replaces `path` once it is written and synced to disk.

    A failure leaves `path` as it was and removes the temporary file.
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
    """Write data to a JSON file, atomically."""
    with replacing(path) as place:
        place.write_text(json.dumps(data, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path, missing: str = "is this the folder of a run?") -> Any:
    """Read a JSON file. `ConfigError` names the file if that fails; `missing` follows if there is none."""
    try:
        with regular(path).open("rb") as file:
            text = file.read(LARGEST_JSON + 1)
        if len(text) > LARGEST_JSON:
            raise ConfigError(f"{path}: damaged: larger than {LARGEST_JSON >> 20} MiB")
        return msgspec.json.decode(text)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; {missing}") from None
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: damaged: {error}") from None


class Damaged(ConfigError):
    """Error: a learner's state is missing, or is not what was written."""


def write_state(path: Path, state: State) -> None:
    """Write a learner's state atomically: arrays as safetensors, values as JSON in the file's metadata.

    The state that was there is kept as the one before (`before`).
    """
    values = json.dumps(state.values)
    metadata = {"schema": str(SCHEMA), "values": values, "sha256": _checksum(state.arrays, values)}
    with replacing(path) as place:
        save_tensors(state.arrays, place, metadata)
        if path.exists():
            with replacing(before(path)) as kept:
                _same_file(path, kept)


def before(path: Path) -> Path:
    """Path of the state before the one at this path."""
    return path.with_stem(f"{path.stem}-before")


def _same_file(path: Path, other: Path) -> None:
    """Give a file another name, or copy it where a file can have only one."""
    try:
        os.link(path, other)
    except OSError:
        shutil.copyfile(path, other)


def _checksum(arrays: Arrays, values: str) -> str:
    """SHA-256 over all arrays and the text of the values."""
    found = hashlib.sha256(values.encode())
    for name, array in sorted(arrays.items()):
        found.update(f"\0{name}\0{array.dtype}\0{array.shape}\0".encode())
        found.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return found.hexdigest()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """Open a learner's state. Arrays are read on demand, metadata at once.

    Raises
    ------
    ConfigError
        if it is of another version.
    Damaged
        if it is missing, or cannot be read.
    """
    try:
        with safe_open(regular(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("schema") != str(SCHEMA):
                raise ConfigError(f"{path}: state of schema {metadata.get('schema')}; this version reads {SCHEMA}")
            yield file, metadata
    except FileNotFoundError:
        raise Damaged(f"{path}: no such file; nothing was stored to go on from") from None
    except (SafetensorError, OSError, KeyError, ValueError, RecursionError) as error:
        raise Damaged(f"{path}: damaged state: {error}") from None


def read_state(path: Path) -> State:
    """Read a learner's state, and check that it is what was written. Raises the errors of `_opened`."""
    with _opened(path) as (file, metadata):
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if _checksum(arrays, metadata["values"]) != metadata["sha256"]:
            raise Damaged(f"{path}: damaged state: its bytes are not those that were written (SHA-256)")
        return State(arrays, json.loads(metadata["values"]))


def read_values(path: Path) -> dict[str, Any]:
    """Read only the values of a learner's state."""
    with _opened(path) as (_, metadata):
        values: dict[str, Any] = json.loads(metadata["values"])
        return values


def stored_parameters(path: Path) -> int:
    """Number of parameters in a learner's state."""
    with _opened(path) as (file, _):
        return int(file.get_slice("weights").get_shape()[0])


def sound_state(path: Path) -> tuple[Path, str | None]:
    """Path of the state that a run goes on from, and why it is the one before; None: it is not.

    Raises
    ------
    ConfigError
        if the state before is not sound either.
    """
    try:
        read_state(path)
    except Damaged as error:
        try:
            steps = read_state(before(path)).values["learner"]["steps"]
        except (ConfigError, KeyError, TypeError):
            raise error from None
        return before(path), f"{error}; going on from the state before, after {steps:,} steps"
    return path, None


def mend_state(path: Path) -> str | None:
    """Put the state before in the place of one that is damaged or missing, and keep the damaged one beside it.

    Returns
    -------
    str or None
        what was done, in a line; None if the state is sound.

    Raises
    ------
    ConfigError
        if the state before is not sound either.
    """
    older, why = sound_state(path)
    if why is None:
        return None
    kept = ""
    if path.exists():
        damaged = path.with_stem(f"{path.stem}-damaged")
        path.replace(damaged)
        kept = f"; the damaged one is now {damaged.name}"
    with replacing(path) as place:
        _same_file(older, place)
    return why + kept


def state_path(folder: Path, group: int) -> Path:
    """Path of the state of a group's learner."""
    return folder / f"learner-g{group}.safetensors"


def episodes_path(folder: Path, group: int) -> Path:
    """Path of the state of a group's environments."""
    return folder / f"episodes-g{group}.json"


def check_new(path: Path) -> None:
    """Check that a run may start in this folder. `ConfigError` if it exists and is not empty."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"{path}: exists and is not empty; name a new folder")


class Tally(Struct, frozen=True):
    """Counts of a run that continue when it is resumed."""

    seconds: float
    """Seconds of training."""
    episodes: int
    returns: list[float]
    """Latest returns."""


class RunFolder:
    """Files of a run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.state = path / "state"
        self.progress = path / "progress.json"
        self.policy = path / "policy.safetensors"
        self.best = path / "best.safetensors"
        self.choice = path / "choice.json"
        self.result = path / "result.json"
        self.lock = path / "lock"
        self.traceback = path / "traceback.txt"

    def create(self, config: TrainConfig) -> None:
        """Create the folder of a new run. `ConfigError` if it is not empty."""
        check_new(self.path)
        try:
            self.state.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from None
        write_json(self.config, msgspec.to_builtins(config))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other training processes. The kernel releases the lock when the process ends.

        Raises
        ------
        ConfigError
            if another process holds the lock.
        """
        try:
            file = self.lock.open("ab")
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"{self.path}: another process trains in this folder; wait for its end, or end it") from None
            yield

    def read_config(self) -> TrainConfig:
        """Read the run's configuration. `ConfigError` if this is not the folder of a run."""
        return convert(read_json(self.config), TrainConfig, str(self.config))

    def save_choice(self, choice: Choice) -> None:
        """Write the discipline that the run chose."""
        write_json(self.choice, msgspec.to_builtins(choice))

    def read_choice(self) -> Choice | None:
        """Read the discipline that the run chose; None if it has not chosen yet. `ConfigError` if it is damaged."""
        return convert(read_json(self.choice), Choice, str(self.choice)) if self.choice.exists() else None

    def save_tally(self, tally: Tally) -> None:
        """Write the run's progress."""
        write_json(self.progress, msgspec.to_builtins(tally))

    def read_tally(self) -> Tally:
        """Read the run's progress. `ConfigError` if it is missing or damaged."""
        return convert(read_json(self.progress), Tally, str(self.progress))
