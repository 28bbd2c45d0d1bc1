"""Where other pipes move messages faster, against the committed session of a fast link."""

from pathlib import Path

import pytest

from reports import dataset, readme
from reports.front import headline
from suites.transmission import analysis

LINK = Path(__file__).parents[2] / "results" / "again" / "transmission-link.parquet"
RUNS = LINK.parents[1] / "reference" / "convergence" / "cartpole-ppo-zoo.parquet"
"""Something that has a first page."""


@pytest.fixture(scope="module")
def data():
    return dataset.load([LINK])


def test_cells_below_one_are_counted_and_the_mean_over_sizes_stands_beside_them(data):
    found = headline(data)
    (pyzmq,) = found.slower
    cells = data.table.rows
    over = [row for row in cells if (row["system"], row["baseline"], row["metric"]) == ("tianji", "pyzmq", "goodput_ratio")]
    assert (pyzmq.title, pyzmq.ratios, pyzmq.below) == ("pyzmq", 40, sum(row["ci_high"] < 1 for row in over))
    assert pyzmq.worst["value"] == min(row["value"] for row in over if row["ci_high"] < 1)
    (between,) = found.between
    assert between.slower is pyzmq
    assert [row["explorers"] for row in between.ends] == [1, 16]
    assert {row["metric"] for row in between.ends} == {analysis.OVER_SIZES}


def test_the_first_page_tells_a_loss_once():
    data = dataset.load([LINK, RUNS])
    told = [line for line in readme.block(data, [], "docs/pictures").splitlines() if "pyzmq" in line]
    assert len(told) == 1
    assert told[0].startswith("- **Messages**, fast link between hosts")
    assert "slower in 6 of 40 cases" in told[0]
