"""Diagrams: data that a browser can read, and a library that is copied once."""

import json
import math

import pytest
from bundles import unpacked

from reports import charts, dataset
from reports.charts import Axis, Curve, Group, Panel, curve
from reports.training import Trained

REFERENCE = "results/reference/convergence/lunarlander-dqn.parquet"


def group(name):
    line = curve("tianji", name, [1, 2.000001, 3], [math.nan, 123456.789, math.inf], low=[0, 1, 2], high=[1, 2, 3])
    return Group("g", "about", [Panel("a", Axis("x"), Axis("y", log=True), [line])])


def read(file):
    text = file.read_text(encoding="ascii")
    assert text.startswith("charts(")
    assert text.endswith(");\n")
    return json.loads(text[len("charts(") : -3])


def test_a_data_file_is_one_call_with_json_that_ends_no_script(tmp_path, monkeypatch):
    library = tmp_path / "library.js"
    library.write_text("library")
    monkeypatch.setattr(charts, "library", lambda: library)
    name = "</script><!-- \u2028"
    charts.write({"one": [group(name)]}, tmp_path)
    assert (tmp_path / charts.LIBRARY).read_text() == "library"
    assert "<" not in (tmp_path / "charts" / "one.js").read_text()
    ((panel,),) = [one["panels"] for one in read(tmp_path / "charts" / "one.js")]
    (line,) = panel["curves"]
    assert line["name"] == name
    assert line["x"] == [1.0, 2.0, 3.0]
    assert line["y"] == [None, 123500.0, None]
    assert (line["low"], line["high"]) == ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    assert (line["line"], panel["y"]) == ("solid", {"title": "y", "log": True})


def test_without_the_library_the_data_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "library", lambda: None)
    charts.write({"one": [group("n")]}, tmp_path)
    assert not (tmp_path / charts.LIBRARY).exists()
    assert read(tmp_path / "charts" / "one.js")


def test_every_marker_and_dash_is_known_to_both_libraries():
    from reports.looks import LOOKS

    assert {look.marker for look in LOOKS.values()} - {""} <= charts.MARKERS.keys()
    kinds = [Curve(name="n", x=[], y=[], colour="#000", line=look.line) for look in LOOKS.values()]
    panel = charts._plotly(Panel("t", Axis("x"), Axis("y"), kinds))
    assert all(one["line"] in charts.DASHES.values() or "px" in one["line"] for one in panel["curves"])


def test_curves_of_a_workload_are_medians_and_runs_of_every_system():
    (view,) = Trained.all(
        dataset.load(sorted(unpacked(REFERENCE).glob("*.sb3")) + sorted(unpacked(REFERENCE).glob("*.tianji")))
    )
    found = view.groups[0]
    assert [panel.title for panel in found.panels] == [
        f"{kind} return over {along}" for kind in ("training", "evaluated") for along in ("seconds", "steps")
    ]
    for panel in found.panels:
        bold, faint = ([one for one in panel.curves if one.faint is faint] for faint in (False, True))
        assert [one.name for one in bold] == [view.title(label) for label in view.shown]
        assert all(len(one.low) == len(one.y) for one in bold)
        assert len(faint) == 5 * len(view.shown)
        assert not any(one.legend for one in faint)
        assert panel.target == 200.0


def test_bars_and_shares_have_a_row_for_each_system():
    data = dataset.load([unpacked("docs/results/smoke.parquet")])
    view = next(one for one in Trained.all(data) if one.workload == "cartpole-ppo-zoo")
    _, costs, shares = view.groups
    assert [panel.title for panel in costs.panels] == ["seconds to the training return", "seconds to the evaluated return"]
    bars = costs.panels[0].curves
    assert [one.x[0] for one in bars] == sorted(one.x[0] for one in bars)
    assert all(any(letter.isdigit() for letter in one.text[0]) for one in bars), "nothing is told by length alone"
    rows = {}
    for one in shares.panels[0].curves:
        for name, percent in zip(one.y, one.x, strict=True):
            rows[name] = rows.get(name, 0.0) + percent
    assert rows
    assert all(0 < total < 106 for total in rows.values())


@pytest.mark.parametrize("values", [[None, 1.0], [math.inf], []])
def test_what_is_no_number_is_a_gap(values):
    assert [one is None for one in charts.rounded(values)] == [value is None or math.isinf(value) for value in values]
