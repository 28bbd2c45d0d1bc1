"""Divisions are kept apart: no row, ratio or line of a series is of closed and open runs, nor of vanilla and tuned ones."""

import itertools

import pytest
from bundles import EVENTS, WORKLOAD, make

from reports import dataset, picker, sessions
from reports.training import Trained
from suites.records.events import Episode, Evaluation, Snapshot

MARKS = {
    "closed": ({}, None),
    "open": ({"division": "open"}, {"division": "open"}),
    "tuned": ({"tuned": True}, {"tuned": True}),
    "both": ({"division": "open", "tuned": True}, {"division": "open", "tuned": True}),
}


def events(seconds):
    """A run that gets there after so long."""
    ns = 5 + round(seconds * 1e9)
    end = [Episode(ns, 30.0, 30, 60), Snapshot(ns, 100, 1, "g"), Evaluation(ns + 1, 100, 1, "curve", [30.0])]
    return [*EVENTS[:3], *end]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("divisions")
    for seconds, (name, (marks, _)) in enumerate(MARKS.items(), 1):
        for block, (position, system) in itertools.product(range(5), enumerate(("tianji", "sync"))):
            cell = f"b{block}.p{position}.{system}"
            place = {"system": system, "block": block, "position": position, "seed": block, "session": name}
            make(folder / name, cell, events(seconds * (1 + position)), options={}, **place, **marks)
    return dataset.load([folder])


def test_a_row_is_of_one_division(data):
    found = [row for row in data.rows if row["metric"] == "restricted_mean_time_s" and row["threshold_kind"] == "training"]
    found = [row for row in found if row["system"] == "tianji"]
    divisions = {(row["division"], str(row["options"])): (row["value"], row["n"]) for row in found}
    assert divisions == {
        (marks.get("division", "closed"), str(options)): (seconds, 5)
        for seconds, (marks, options) in enumerate(MARKS.values(), 1)
    }


def test_each_division_has_bars_of_its_own(data):
    found = {choice.options: own for choice, own in picker.bars(data).items() if choice.kind == "training"}
    assert list(found) == ["", "division = open", "division = open, tuned = True", "tuned = True"]
    assert all({bar.runs for bar in own} == {5} for own in found.values())
    assert picker.first(picker.bars(data)).options == ""


def test_a_page_has_a_part_for_each(data):
    assert [key.options for key in data.groups] == ["", "division = open", "division = open, tuned = True", "tuned = True"]
    for key, bundles in data.groups.items():
        assert {str(b.manifest.axes or "") for b in bundles} == {str(bundles[0].manifest.axes or "")}, key


def reached(seconds):
    """A run that reaches its training return after so long."""
    first, *rest = events(seconds)[3:]
    return [*EVENTS[:3], *[first] * 100, *rest]


def test_systems_with_settings_of_their_own_are_compared_with_each_other_and_trials_are_not(tmp_path):
    for seconds, system in enumerate(("tianji", "sync"), 1):
        for block in range(5):
            place = {"system": system, "block": block, "position": seconds, "seed": block}
            chosen = {"workload": WORKLOAD, "options": {"environments": seconds}}
            marks = {"division": "open", "tuned": True, "profile": "standard", "configuration": chosen}
            make(tmp_path / "open", f"b{block}.{system}", reached(seconds), session="open", **place, **marks)
            make(tmp_path / "closed", f"b{block}.{system}", reached(3 * seconds**2), session="closed", **place)
        trial = {"suite": "tuning", "options": {"place": 0}, "system": system, "session": f"of-{system}", **MARKS["both"][0]}
        make(tmp_path / f"tuning-{system}", "trial", reached(seconds), **trial)
    found = dataset.load([tmp_path])
    key = {"metric": "time_to_threshold_ratio", "threshold_kind": "training", "system": "tianji", "baseline": "sync"}
    ratios = {row["division"]: (row["value"], row["n"]) for row in found.rows if row.items() >= key.items()}
    assert ratios == {"closed": (pytest.approx(4.0), 5), "open": (pytest.approx(2.0), 5)}, (
        "a smoke session of another division stays"
    )
    assert {row["suite"] for row in found.rows} == {"convergence"}
    commands = {view.apart: source.command for view in Trained.all(found) for source in sessions.sources(view)}
    assert {apart: "--tuned FILE..." in command for apart, command in commands.items()} == {
        "": False,
        "open division, tuned": True,
    }
    assert [line for line in found.left_out if "tuning" in line] == [
        f"left out: 1 tuning run of {system} on w-x, which are no results" for system in ("sync", "tianji")
    ]
