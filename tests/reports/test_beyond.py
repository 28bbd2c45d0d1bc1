"""Predictions in a report: drawn as such over what was measured, and part of nothing that was measured."""

import pytest
import scaling_bundles as made

from reports import claims, dataset, page
from reports.nodes import Scaled, lines
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
    tables, others = ({table.name: table.frame for one in page.pages(of) for table in one.tables} for of in (data, without))
    assert tables.keys() == others.keys()
    assert all(tables[name].equals(frame) for name, frame in others.items())


def test_lines_are_of_one_topology_discipline_and_bandwidth():
    slow, fast, one = lines(FORECASTS)
    assert (slow.gbit, fast.gbit, one.topology) == (1.0, 10.0, "one learner")
    assert [point.nodes for point in slow.points] == [1, 2, 8, 64, 512]


def test_predicted_curves_have_a_diagram_of_their_own(data):
    (view,) = Scaled.all(data)
    (group,) = view.groups
    measured, *predicted = group.panels
    assert {one.name for one in measured.curves} == {"TianJi"}
    assert ["predicted, not measured" in panel.title for panel in predicted] == [True, True]
    assert all(one.name.startswith("predicted: ") for panel in predicted for one in panel.curves)
    # Values are of each node.
    (slow, _) = predicted[0].curves
    assert slow.y[slow.x.index(64.0)] == pytest.approx(3_300 / 64)


def test_a_report_without_predictions_has_no_such_diagram(places):
    (view,) = Scaled.all(dataset.load([places[0]]))
    assert [len(group.panels) for group in view.groups] == [1]
