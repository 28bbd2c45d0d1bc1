"""Interactive curves: data that a browser can read, and a library that is copied when there are curves."""

import json
import math

import pytest
from bundles import unpacked

from reports import curves, dataset
from reports.convergence import curves as of_convergence
from reports.convergence.view import Trained
from reports.curves import Axis, Panel, curve

REFERENCE = "results/reference/convergence/lunarlander-dqn.parquet"


def panel(name):
    line = curve("tianji", name, [1, 2.000001, 3], [math.nan, 123456.789, math.inf], low=[0, 1, 2], high=[1, 2, 3])
    return Panel("a", Axis("x"), Axis("y", log=True), [line])


def test_a_data_file_is_one_call_with_json_that_ends_no_script(tmp_path, monkeypatch):
    library = tmp_path / "library.js"
    library.write_text("library")
    monkeypatch.setattr(curves, "library", lambda: library)
    name = "</script><!-- \u2028"
    assert curves.write([("one", [panel(name)]), ("none", [])], tmp_path) == {"one"}
    assert (tmp_path / curves.LIBRARY).read_text() == "library"
    text = (tmp_path / "curves" / "one.js").read_text(encoding="ascii")
    assert text.startswith("curves(")
    assert text.endswith(");\n")
    ((line,),) = [one["lines"] for one in json.loads(text[len("curves(") : -3])]
    assert line["name"] == name
    assert line["x"] == [1.0, 2.0, 3.0]
    assert line["y"] == [None, 123460.0, None]
    assert (line["low"], line["high"]) == ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    assert not (tmp_path / "curves" / "none.js").exists()


def test_without_the_library_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "library", lambda: None)

    def never():
        yield pytest.fail("panels are made for nothing")

    assert curves.write(never(), tmp_path) == set()
    assert list(tmp_path.iterdir()) == []


def test_curves_of_a_workload_are_medians_and_runs_of_every_system():
    (view,) = Trained.all(
        dataset.load(sorted(unpacked(REFERENCE).glob("*.sb3")) + sorted(unpacked(REFERENCE).glob("*.tianji")))
    )
    panels = of_convergence.panels(view)
    assert len(panels) == 6
    median, runs, steps = panels[:3]
    assert [line.name for line in median.lines] == [view.title(label) for label in view.shown]
    assert all(len(line.low) == len(line.y) for line in median.lines)
    assert len(runs.lines) == len(steps.lines) == 5 * len(view.shown)
    assert [line.legend for line in runs.lines] == [True, *[False] * 4] * len(view.shown)
    assert {panel.target for panel in panels} == {200.0}
