"""Predictions in a report: drawn as such over what was measured, and part of nothing that was measured."""

import matplotlib.pyplot as plt
import pytest
import scaling_bundles as made

from reports import claims, dataset, figures, sections
from reports.scaling import beyond
from reports.scaling.bends import lines
from reports.scaling.view import Scaled
from reports.styles import PAGE, PAPER
from suites.records import forecasts
from suites.records.forecasts import SCHEMA, SUFFIX, Forecasts, Point

pytestmark = pytest.mark.xdist_group("reports-scaling")
EXPERIMENT = "cartpole-ppo-nodes"


def point(nodes, samples_per_s, gbit=1.0, topology="groups", discipline="strict", system="tianji", binds="learner"):
    return Point(topology, discipline, gbit, nodes, 8, samples_per_s, 0.0, binds, system)


POINTS = [
    *(point(n, 100.0 * n) for n in (1, 2, 8)),
    point(64, 3_300.0),
    point(512, 20_000.0, binds="Root's core"),
    point(512, 50_000.0, gbit=10.0),
    point(1, 100.0, topology="one learner", system=None),
    point(8, 200.0, topology="one learner", system=None),
]
FORECASTS = Forecasts(SCHEMA, EXPERIMENT, "netns", 1.0, "a command", "a commit", "a file", {}, POINTS)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beyond")
    made.session(folder / "in", systems=("tianji",), counts=(1, 2, 8))
    (folder / "predicted").mkdir()
    forecasts.write(FORECASTS, folder / "predicted" / f"one{SUFFIX}")
    return folder / "in", folder / "predicted"


@pytest.fixture(scope="module")
def data(places):
    return dataset.load(list(places))


def test_no_row_series_or_claim_has_anything_of_a_prediction(places, data):
    without = dataset.load([places[0]])
    assert without.forecasts == []
    assert data.forecasts == [FORECASTS]
    assert data.rows == without.rows
    assert all(data.series[name].equals(frame) for name, frame in without.series.items())
    assert claims.judge(data) == claims.judge(without)
    tables, others = (sections.tables(one) for one in (data, without))
    new = [name for name in tables if name not in others]
    assert [name.endswith("-beyond") for name in new] == [True]
    assert all(tables[name].equals(frame) for name, frame in others.items())
    assert tables[new[0]].columns[0].startswith("Predicted")


def test_a_line_bends_where_a_node_gives_less_than_half(data):
    slow, fast, one = lines(FORECASTS)
    assert (slow.gbit, fast.gbit, one.topology) == (1.0, 10.0, "one learner")
    assert slow.share(slow.points[3]) == pytest.approx(0.515625)
    assert slow.bend == slow.points[-1]
    # It has no point of one node of its own, where a link carries nothing.
    assert fast.bend is None
    (view,) = Scaled.all(data)
    text = view.frame("beyond").to_dict("records")
    assert [row["Bends on nodes"] for row in text] == ["512", "not up to 512", "8"]
    assert text[0]["What binds there"] == "Root's core"


@pytest.mark.parametrize("style", [PAGE, PAPER])
def test_predicted_marks_are_told_from_measured_ones(data, style):
    (drawn,) = figures.draw(data, style, [beyond.PLOT])
    marks = drawn.drawing.marks
    predicted, measured = marks[marks["predicted"]], marks[~marks["predicted"]]
    assert len(predicted) == len(POINTS)
    assert sorted(measured["nodes"]) == [1, 2, 8]
    assert set(measured["system"]) == {"tianji"}
    names = [text.get_text() for text in drawn.drawing.figure.legends[0].get_texts()]
    assert all(name.startswith(("predicted: ", "measured: ")) for name in names)
    # Values are of each node.
    assert predicted.loc[predicted["nodes"] == 64, "value"].item() == pytest.approx(3_300 / 64)
    assert "simulated, not measured" in drawn.caption
    assert "predicted: a learner a node, strict, 1.00 Gbit/s bends on 512 nodes (Root" in " ".join(drawn.found)
    plt.close(drawn.drawing.figure)


def test_a_report_without_predictions_has_no_such_figure(places):
    assert figures.draw(dataset.load([places[0]]), PAGE, [beyond.PLOT]) == []
