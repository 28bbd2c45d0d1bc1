"""Bounds of censored results: they are reported instead of a ratio over the few blocks in which both sides succeeded."""

import dataclasses
from pathlib import Path

import pytest

from reports import bounds, dataset
from reports.table import Table
from reports.training import Trained

WORKLOAD = "lunarlander-dqn"
REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "convergence"


def row(value, low=None, high=None, n=5):
    return {"value": value, "ci_low": low, "ci_high": high, "n": n, "censored": 5 - n}


def told(rows):
    return bounds.told(lambda metric: rows.get(metric.removeprefix(bounds.METRIC)))


def test_what_counts_every_block_leads_and_a_bound_never_stands_alone():
    every = {"restricted_mean_time_ratio": row(1.2, 0.9, 1.6), "expected_running_time_ratio": row(1.1)}
    bound = told(every | {"_at_least": row(3.15, n=2)})
    assert bound.words == "ERT 1.10x, restricted mean 1.20x [0.900, 1.60]; > 3.15x (2 of 5)"
    assert bound.leading == every["restricted_mean_time_ratio"]
    assert told(every | {"": row(1.47, n=3)}).words == "ERT 1.10x, restricted mean 1.20x [0.900, 1.60]; 1.47x (3 of 5)"
    never = {"restricted_mean_time_ratio": row(1.2, 0.9, 1.6), "expected_running_time_ratio": row(None, n=5)}
    assert told(never).words == "restricted mean 1.20x [0.900, 1.60]", "a side without a success has no ERT"
    assert told({"": row(1.35, 1.21, 1.51)}).leading == row(1.35, 1.21, 1.51)


@pytest.fixture(scope="module")
def data():
    """Runs of which some got there, and some systems never."""
    return dataset.load(sorted(REFERENCE.glob(f"{WORKLOAD}.*")))


def view(data, rows=None):
    """The one workload; `rows` stand for those that were measured."""
    (found,) = Trained.all(data if rows is None else dataclasses.replace(data, table=Table(rows)))
    return found


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"": row(1.35, 1.21, 1.51)}, "1.35x [1.21, 1.51]"),
        ({"": row(2.74, n=2), "_at_most": row(2.52, n=3)}, "< 2.52x (3 of 5)"),
        ({"": row(None, n=0), "_at_least": row(3.15, n=2)}, "> 3.15x (2 of 5)"),
        ({"_at_least": row(2.0), "_at_most": row(4.0)}, "not comparable"),
        ({"": row(1.1, n=4)}, "1.10x (4 of 5)"),
        ({"": row(1.0), "_at_least": row(None, n=0)}, "1.00x"),
        ({"": row(None, n=0)}, "-"),
        ({}, "-"),
    ],
)
def test_a_bound_goes_before_the_ratio(rows, said):
    assert told(rows).words == said


def test_who_got_there_without_the_other_and_the_other_way_round_are_not_compared(data):
    """TianJi and XingTian-style: each in a block in which the other did not."""
    found = view(data)
    (table,) = found.tables
    lines = table.frame.set_index("System")
    told = lines.loc[found.title("xingtian"), "TianJi's speed, evaluated"]
    assert told.endswith("]; not comparable")
    assert lines.loc[found.title("rllib"), "TianJi's speed, evaluated"].endswith("> 3.04x (3 of 5)")
    assert lines.loc[found.title("rllib"), "Reached, evaluated"] == "0/5"
    assert lines.loc[found.title("tianji"), "Reached, evaluated"] == "3/5"


def test_who_never_got_there_beside_who_never_did_has_no_ratio(data):
    rows = [
        row | {"value": None, "n": 0, "censored": 5} if row["metric"].startswith(bounds.METRIC) else row for row in data.rows
    ]
    assert view(data, rows).fast("tianji", "rllib", "evaluated").row is None
    assert not view(data, rows).fast("tianji", "rllib", "evaluated").exact
