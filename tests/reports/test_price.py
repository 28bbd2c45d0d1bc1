"""What a report says of the price suite: a diagram with every setting, a table, and the fitted price."""

import pandas as pd
import priced
import pytest
from bundles import unpacked

from reports import dataset
from reports.__main__ import main as report
from reports.price import Priced


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    def steps(lag, rate, seed):
        return round(1000 * 1.1**seed * (1 + 100 * lag * rate))

    return priced.make(tmp_path_factory.mktemp("price") / "session", steps)


def test_the_diagram_has_a_mark_for_each_lag_and_learning_rate(recorded):
    (panel,) = [one for view in Priced.all(dataset.load([recorded])) for group in view.groups for one in group.panels]
    marks = {(one.name, x): y for one in panel.curves for x, y in zip(one.x, one.y, strict=True)}
    # Settings of one product lie on each other, where it decides.
    assert marks["learning rate 0.001", 0.004] == pytest.approx(1.4, rel=0.01)
    assert marks["learning rate 0.004", 0.004] == pytest.approx(1.4, rel=0.01)
    assert len(marks) == 4


def test_without_such_runs_there_is_nothing():
    assert Priced.all(dataset.load([unpacked("docs/results/smoke.parquet")])) == []


def test_the_table_has_a_line_for_each_setting(recorded, tmp_path):
    assert report(["build", str(recorded), "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "tables" / "price.csv")
    assert sorted(set(table["Lag"])) == [0, 1, 4]
    assert len(table) == 6
    own = table[(table["Lag"] == 4) & (table["Learning rate"] == 0.001)].iloc[0]
    assert own["Over lag 0's"].startswith("1.40x [")
    assert own["Pairs"] == "5"
