"""Times with compilation stand beside those without, where a system compiles."""

import pytest
from bundles import make

from reports import dataset
from reports.convergence.view import Trained
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


def test_tables_have_both_times(view):
    tables = view.tables()
    times = tables["threshold"].query("Return.str.startswith('evaluated')").set_index("System")
    assert times.loc["SBX", "Seconds"].startswith("3.00")
    assert times.loc["SBX", "Seconds with compilation"].startswith("9.00")
    assert times.loc["TIANJI", "Seconds with compilation"] == times.loc["TIANJI", "Seconds"]
    ratios = tables["ratios"].query("than == 'SBX' and Faster == 'TIANJI'").set_index("Part")["Evaluated return"]
    assert ratios["in all"].startswith("3.00x")
    assert ratios["in all, with compilation"].startswith("9.00x")
    assert "with compilation" not in " ".join(tables["ratios"].query("than == 'SYNC'")["Part"])
    assert tables["resources"].set_index("System").loc["SBX", "Of it compilation, s"].startswith("6.00")


def test_a_headline_is_without_and_says_the_total_beside_it(view):
    (line,) = (line for line in view.words.lines("headlines") if "as fast as SBX" in line)
    assert "3.00x" in line
    assert "With the compilation of SBX in its time: 9.00x" in line


def test_without_such_a_system_nothing_is_said_of_it(tmp_path):
    view = view_of(tmp_path, ("tianji", "sync"))
    said = " ".join(view.words.lines("headlines"))
    said += " ".join(" ".join(view.words.lines(f"table_{kind}")) for kind in ("ratios", "threshold", "resources"))
    assert "ompilation" not in said
