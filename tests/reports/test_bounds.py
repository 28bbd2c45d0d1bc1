"""Bounds of censored results: they are reported instead of a ratio over the few blocks in which both sides succeeded."""

import dataclasses
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from reports import bounds, dataset, paper
from reports.convergence.figures import PLOTS, ratio_marks
from reports.convergence.view import Trained
from reports.table import Table
from reports.tables import number

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
    assert bound.inverse.words == "ERT 0.909x, restricted mean 0.833x [0.625, 1.11]; < 0.317x (2 of 5)"
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


def headlines(*of):
    return view(*of).words.lines("headlines")


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


def test_the_other_way_round_a_bound_is_from_the_other_side():
    assert told({"_at_least": row(2.0)}).inverse.words == "< 0.500x"
    assert told({"": row(2.0, 1.0, 4.0)}).inverse.words == "0.500x [0.250, 1.00]"
    assert told({"_at_least": row(2.0), "_at_most": row(4.0)}).inverse.words == "not comparable"


def test_headlines_tell_bounds_and_who_got_there(data):
    said = {sentence.partition(" as fast as ")[2].partition(" (")[0]: sentence for sentence in headlines(data)}
    assert set(said) == {"", "RLlib", "Stable-Baselines3", "synchronous, one actor"}
    assert "more than 3.04x as fast as RLlib (n = 3 blocks). 3 of 5 runs of TianJi and 0 of 5 runs of RLlib" in said["RLlib"]
    assert "less than 1.20x as fast as" in said["synchronous, one actor"]
    assert "3 of 5 runs of XingTian-style reach it; each system missed it in a block that the other solved" in said[""]
    assert "engineering" not in said["Stable-Baselines3"], "a product of what the easy blocks say"


def test_who_never_got_there_beside_who_never_did_is_said(data):
    rows = [
        row | {"value": None, "n": 0, "censored": 5} if row["metric"].startswith(bounds.METRIC) else row for row in data.rows
    ]
    (said,) = [sentence for sentence in headlines(data, rows) if "RLlib" in sentence]
    assert "it is open which system reaches the evaluated threshold sooner." in said
    assert "3 of 5 runs of TianJi and 0 of 5 runs of RLlib reach it." in said


def test_a_bound_of_all_blocks_is_no_factor_of_a_product(data):
    """As if TianJi and synchronous got there in all blocks, and Stable-Baselines3 did not."""

    def always(row):
        bound = row["metric"].endswith("_at_least") and row["baseline"] == "sb3"
        exact = row["metric"] == bounds.METRIC and row["baseline"] == "sync-one"
        if row["threshold_kind"] != "evaluated" or not row["metric"].startswith(bounds.METRIC):
            return row
        return row | ({"value": 2.0, "n": 5, "censored": 0} if bound or exact else {"value": None})

    rows = [always(row) for row in data.rows if not row["metric"].endswith(("_at_least", "_at_most"))]
    pair = {"suite": "convergence", "workload": WORKLOAD, "threshold_kind": "evaluated", "baseline": "sb3"}
    pair |= {"machine": rows[0]["machine"]}
    rows += [{**pair, "system": system, "metric": f"{bounds.METRIC}_at_least", **row(2.0)} for system in ("tianji", "sync-one")]
    (said,) = [sentence for sentence in headlines(data, rows) if "Stable-Baselines3" in sentence]
    assert "more than 2.00x as fast as Stable-Baselines3 (n = 5 blocks). 3 of 5 runs" in said
    assert "engineering" not in said


def test_who_got_there_without_the_other_and_the_other_way_round_are_not_compared(data):
    """TianJi and XingTian-style: each in a block in which the other did not."""
    table, title = view(data).frame("ratios").set_index(["Faster", "than"]), view(data).title
    assert table.loc[(title("tianji"), title("xingtian")), "Evaluated return"].endswith("]; not comparable")


def test_the_picture_of_ratios_says_what_the_table_does(data):
    drawn, title = ratio_marks([view(data)]), view(data).title
    table = view(data).frame("ratios")
    columns = {"evaluated": "Evaluated return", "training": "Training return"}
    assert set(drawn["bound"]) == set(bounds.SIGNS)
    of_ours = drawn[drawn["system"] == "tianji"]
    assert len(of_ours) == 7, "what cannot be compared has no mark"
    for _, point in of_ours.iterrows():
        (line,) = (
            told
            for _, told in table.iterrows()
            if told["Faster"] == title("tianji") and told["than"] == title(point["baseline"])
        )
        cell = line[columns[point["kind"]]]
        easy = cell.rpartition("; ")[2]
        assert easy.startswith(f"{bounds.SIGNS[point['bound']]}{number(point['value'])}x")
        assert (easy != cell) == (point["n"] < 5 or point["bound"] != ""), "every block counts before some do"


def test_a_bound_is_drawn_as_an_arrow_to_where_the_ratio_is(data):
    drawn = ratio_marks([view(data)])
    (plate,) = paper.draw(data, [plot for plot in PLOTS if plot.name == "ratios"])
    arrows = [text for text in plate.drawing.figure.axes[0].texts if text.arrow_patch is not None]
    ways = sorted((text.xy[0], text.xyann[0] > 0) for text in arrows)
    bounded = drawn[drawn["bound"] != ""]
    assert ways == sorted((point["value"], point["bound"] == "at_least") for _, point in bounded.iterrows())
    assert "An arrow is a bound" in plate.caption
    counts = {text.get_text() for text in plate.drawing.figure.axes[0].texts if text.get_text()}
    assert counts == {"n = 3 of 5", "n = 4 of 5", "n = 5"}, "each mark has its own"
    plt.close(plate.drawing.figure)
