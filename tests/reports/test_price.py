"""What a report says of the price suite: statements need enough pairs, and the figure has every setting."""

import priced
import pytest

from reports import dataset
from reports.__main__ import main as report
from reports.price.figures import product
from reports.price.view import Point, Priced, statements
from reports.styles import PAGE


def point(lag, rate, value, n=30, width=1.05):
    return Point(lag, rate, {"value": value, "ci_low": value / width, "ci_high": value * width, "n": n, "censored": 0})


def test_a_product_that_decides_is_not_shown_to_be_wrong():
    points = [point(4, 0.001, 1.5), point(2, 0.002, 1.54), point(1, 0.004, 1.48), point(1, 0.001, 1.1)]
    assert statements(points, 30) == [
        "Settings with the same lag times learning rate are not shown to differ: the intervals of all 3 pairs overlap."
    ]


def test_two_settings_of_one_product_that_differ_are_named():
    points = [point(4, 0.001, 1.5), point(2, 0.002, 1.8), point(1, 0.004, 1.3)]
    assert statements(points, 30) == [
        "Lag times learning rate alone does not decide: at 0.004, lag 1 at 0.004 takes 1.30x [1.24, 1.37] and lag 2 at 0.002 "
        "takes 1.80x [1.71, 1.89]."
    ]


def test_there_is_no_statement_below_thirty_pairs():
    few = [point(4, 0.001, 1.5, n=5), point(1, 0.004, 3.0, n=29)]
    assert statements(few, 30) == ["n = 5 and 29: no statement (at least 30 paired seeds)."]
    # What has enough is judged among itself.
    found = statements([*few, point(2, 0.002, 1.5), point(4, 0.001, 1.6)], 30)
    assert found[0].startswith("n = 5 and 29: no statement")
    assert found[1].startswith("Settings with the same")
    # Without two settings of one product there is nothing to compare.
    assert statements([point(1, 0.001, 1.1), point(1, 0.002, 1.2)], 30) == []


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    def steps(lag, rate, seed):
        return round(1000 * 1.1**seed * (1 + 100 * lag * rate))

    return priced.make(tmp_path_factory.mktemp("price") / "session", steps)


def test_the_figure_has_a_mark_for_each_lag_and_learning_rate(recorded):
    views = Priced.all(dataset.load([recorded]))
    with PAGE.applied():
        drawn = product(views, PAGE)
    marks = drawn.marks.set_index(["lag", "learning_rate"])
    assert set(marks.index) == {(lag, rate) for lag in (1, 4) for rate in (0.001, 0.004)}
    assert marks.loc[(4, 0.001), "product"] == marks.loc[(1, 0.004), "product"] == 0.004
    assert marks.loc[(4, 0.001), "value"] == pytest.approx(1.4, rel=0.01)
    titles = [axis.get_title(loc="left") for axis in drawn.figure.axes]
    assert [title.splitlines()[1] for title in titles] == ["n = 5: no statement"]
    assert product([], PAGE) is None


def test_the_report_refuses_a_statement_and_has_the_table(recorded, tmp_path):
    assert report(["build", str(recorded), "--out", str(tmp_path), "--svg"]) == 0
    tables = sorted(path.name for path in (tmp_path / "tables").glob("price-*.md"))
    assert len(tables) == 2
    lines = (tmp_path / "tables" / tables[0]).read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| 0", "| 1", "| 4"]
    assert "no statement (at least 30 paired seeds)" in (tmp_path / "figures" / "figures.json").read_text()
