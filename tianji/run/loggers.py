"""Loggers, which keep the curves of a run. Other packages add theirs by the entry-point group `tianji.loggers`.

A logger is made with the run's folder and its settings as plain data. It then gets points, and is closed at the end.
"""

from __future__ import annotations

import csv
import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from programs.cli import ConfigError
from programs.registry import Registry
from tianji.run_folder import replacing


class Logger(ABC):
    """Keeper of a run's curves.

    Parameters
    ----------
    folder
        the run's folder.
    config
        the run's settings, as plain data.
    """

    @abstractmethod
    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Keep a point of each curve, by its name, at this environment step."""

    @abstractmethod
    def close(self) -> None:
        """Write what is left."""


LOGGERS: Registry[type[Logger]] = Registry(
    "tianji.loggers",
    {
        "tensorboard": "tianji.run.loggers:TensorBoard",
        "csv": "tianji.run.loggers:CSV",
        "wandb": "tianji.run.loggers:WandB",
    },
    "logger",
)


class TensorBoard(Logger):
    """Events for TensorBoard in the run's folder."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._writer = summary_writer()(str(folder), flush_secs=10)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


def summary_writer() -> Any:
    """tensorboardX's writer, imported without torch.

    It would import torch if that is installed, which takes two seconds of a core that roles need.
    """
    hidden = "torch" not in sys.modules
    if hidden:
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("tensorboardX").SummaryWriter
    finally:
        if hidden:
            del sys.modules["torch"]


class CSV(Logger):
    """A table `progress.csv` in the run's folder, with a row at each point in time.

    A curve that begins later gets a column then. A resumed run goes on with the table that is there.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._path = folder / "progress.csv"
        self._columns = ["steps"]
        if self._path.exists():
            with self._path.open(encoding="utf-8", newline="") as before:
                self._columns = next(csv.reader(before), self._columns)
        self._file = self._path.open("a", encoding="utf-8", newline="")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        row = {"steps": step, **values}
        if new := [name for name in row if name not in self._columns]:
            self._widen(new)
        csv.DictWriter(self._file, self._columns).writerow(row)
        self._file.flush()

    def _widen(self, new: Sequence[str]) -> None:
        """Write the table anew with more columns."""
        self._file.close()
        with self._path.open(encoding="utf-8", newline="") as before:
            rows = list(csv.DictReader(before))
        self._columns = [*self._columns, *new]
        with replacing(self._path) as place, place.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self._columns)
            writer.writeheader()
            writer.writerows(rows)
        self._file = self._path.open("a", encoding="utf-8", newline="")

    def close(self) -> None:
        self._file.close()


class WandB(Logger):
    """A run of Weights & Biases. Its own environment variables say where: `WANDB_PROJECT`, `WANDB_MODE` and so on."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        try:
            wandb = importlib.import_module("wandb")
        except ModuleNotFoundError:
            raise ConfigError("loggers: wandb is not installed; pip install wandb brings it") from None
        self._run = wandb.init(dir=str(folder), config=dict(config), name=folder.name)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()
