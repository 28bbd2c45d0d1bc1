"""Times with compilation stand beside those without, where a system compiles."""

import pytest
from bundles import make

from reports import dataset
from reports.training import Trained
from suites.records.events import Counter, Episode, Evaluation, FirstStep, Snapshot, Usage

BUDGET = 100
SYSTEMS = {"tianji": (1, None), "sync": (2, None), "sbx": (3, 6.0)}
"""Seconds to either return, and seconds of compilation."""


def events(seconds, compile_s):
    at = 5 + seconds * 10**9
    found = [Usage(4, 0.5, 10), FirstStep(5), Snapshot(5, 0, 0, "f"), Evaluation(6, 0, 0, "curve", [1.0])]
    found += [Episode(at, 30.0, 30, 60) for _ in range(100)]
    found += [Snapshot(at, BUDGET, 1, "g"), *(Evaluation(at + 1, BUDGET, 1, kind, [30.0]) for kind in ("curve", "confirm"))]
    return found if compile_s is None else [Counter(1, "compile_s", compile_s), *found]


def view_of(folder, systems):
    for block in range(5):
        for position, system in enumerate(systems):
            place = {"block": block, "seed": block, "position": position, "profile": "standard"}
            make(folder, f"b{block}.{system}", events(*SYSTEMS[system]), system=system, system_title=system.upper(), **place)
    (view,) = Trained.all(dataset.load([folder]))
    return view


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    return view_of(tmp_path_factory.mktemp("compiled"), SYSTEMS)


def test_a_speed_with_compilation_stands_beside_that_without(view):
    (table,) = view.tables
    lines = table.frame.set_index("System")
    assert lines.loc["SBX", "Seconds, evaluated"].startswith("3.00")
    assert lines.loc["SBX", "TianJi's speed, training"].startswith("3.00x")
    assert lines.loc["SBX", "Compiles, s (speed then)"].startswith("6.00 (9.00x")
    assert lines.loc["SYNC", "Compiles, s (speed then)"] == "-"


def test_without_such_a_system_nothing_is_said_of_it(tmp_path):
    (table,) = view_of(tmp_path, ("tianji", "sync")).tables
    assert not [name for name in table.frame if "ompile" in name]
