"""Finds and checks workload files."""

from __future__ import annotations

import difflib
from pathlib import Path

from baselines.workload import Workload
from programs.cli import ConfigError
from tianji.settings import convert, read_toml

DIRECTORY = Path(__file__).parents[1] / "workloads"


def names() -> list[str]:
    """Ids of the workloads that come with the project."""
    return sorted(path.stem for path in DIRECTORY.glob("*.toml"))


def load(name: str) -> Workload:
    """A workload by id, or from a file whose path ends in `.toml`.

    Raises
    ------
    ConfigError
        when there is none of that name, or its file has a wrong key or value.
    """
    path = Path(name) if name.endswith(".toml") else DIRECTORY / f"{name}.toml"
    if not name.endswith(".toml") and name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(f"unknown workload {name!r}; {hint}known: {', '.join(names())}, or a path to a .toml file")
    workload = convert(read_toml(path), Workload, str(path))
    if workload.id != path.stem:
        raise ConfigError(f"{path}: its id is {workload.id!r}; the file must be named {workload.id}.toml")
    if workload.round_steps > workload.budget_steps:
        raise ConfigError(
            f"{path}: budget_steps {workload.budget_steps} is less than one round of {workload.round_steps} steps"
        )
    return workload
