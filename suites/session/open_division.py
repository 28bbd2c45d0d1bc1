"""Checks of the open division: every system is tuned, with as many trials and seeds as every other, on today's workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from baselines import system as systems
from baselines.system import Task
from baselines.workload import Workload
from programs.cli import ConfigError
from suites.records.tuned import Tuned


def check(
    tuned: Sequence[Tuned], workloads: Sequence[Workload], able: Mapping[str, Sequence[str]], cores: tuple[int, ...]
) -> None:
    """Check that these settings are those of a session.

    Parameters
    ----------
    able
        the systems that run on each workload.

    Raises
    ------
    ConfigError
        where they are not.
    """
    if len({one.trials for one in tuned}) > 1:
        told = ", ".join(f"{one.system} {one.trials}" for one in tuned)
        raise ConfigError(f"--tuned: every system has the same number of trials in the open division, not {told}")
    if len({one.last_seeds for one in tuned if one.last_seeds is not None}) > 1:
        told = ", ".join(f"{one.system} {one.last_seeds}" for one in tuned if one.last_seeds is not None)
        raise ConfigError(f"--tuned: every system has as many seeds in the last rung of its tuning, not {told}; tune again")
    wanted = {(name, workload.id): workload for workload in workloads for name in able[workload.id]}
    given: dict[tuple[str, str], Tuned] = {}
    for one in tuned:
        name, workload_id = one.place
        if one.place in given:
            raise ConfigError(f"--tuned: two files are of {name} on {workload_id}; give one")
        if one.place not in wanted:
            raise ConfigError(f"--tuned: a file is of {name} on {workload_id}, which is not of this session; leave it out")
        given[one.place] = one
        _fits(one, wanted[one.place], cores)
    for name, workload_id in wanted.keys() - given.keys():
        raise ConfigError(f"--tuned: no file is of {name} on {workload_id}: tune it (`tianji-bench tune`), or leave it out")


def _fits(one: Tuned, workload: Workload, cores: tuple[int, ...]) -> None:
    """Check a setting against the workload and the system of this revision, on these cores."""
    of = f"--tuned: the file of {one.system} on {workload.id}"
    if msgspec.json.decode(msgspec.json.encode(workload)) != one.workload:
        raise ConfigError(f"{of} is of another version of this workload; tune again")
    if odd := systems.get(one.system).space(Task(one.system, workload, 0, cores)).outside(one.options):
        raise ConfigError(f"{of} does not fit here: {odd}; tune again")
