"""Data of the convergence suite's figures."""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from bundles import unpacked

from reports import dataset
from reports.convergence.bands import band
from reports.convergence.figures import curves, lowest
from reports.convergence.view import Trained
from reports.styles import PAGE
from suites.statistics.crossings import KINDS

WORKLOAD = "cartpole-ppo-zoo"
RECORDED = "docs/results/smoke.parquet"


def view(data):
    return next(view for view in Trained.all(data) if view.workload == WORKLOAD)


def test_an_axis_of_returns_begins_at_0_or_below_all_points_but_the_lowest():
    data = dataset.load([unpacked(RECORDED)])
    assert lowest(view(data)) == 0
    lower = {
        f"curves-{kind}": frame.assign(mean_return=frame["mean_return"] - 300)
        for kind in KINDS
        for frame in [data.series[f"curves-{kind}"]]
    }
    data = dataclasses.replace(data, series=data.series | lower)
    begins = lowest(view(data))
    assert begins < 0
    ran = pd.concat([frame["mean_return"][frame["workload"] == WORKLOAD] for frame in lower.values()])
    assert 0 < (ran < begins).mean() <= 0.05
    figure = curves([view(data)], PAGE).figure
    assert {axis.get_ylim()[0] for axis in figure.axes} == {begins}
    plt.close(figure)
    nothing = {name: data.series[name][:0] for name in lower}
    assert lowest(view(dataclasses.replace(data, series=data.series | nothing))) == 0


def straight(height, first, last):
    """A run that has one return throughout."""
    return pd.DataFrame({"seconds": np.linspace(first, last, 200), "mean_return": float(height)})


def test_a_band_holds_the_middle_half_of_the_runs_that_are_under_way():
    runs = [straight(height, 1, 100 if height < 30 else 10) for height in (0, 10, 20, 30, 40)]
    found = band(runs, 1.0)
    early, late = found[found["seconds"] < 9], found[found["seconds"] > 11]
    assert set(early["median"]) == {20.0}
    assert (set(early["low"]), set(early["high"])) == ({10.0}, {30.0})
    assert set(early["runs"]) == {5}
    assert set(late["median"]) == {10.0}, "two runs have ended"
    assert set(late["runs"]) == {3}
    assert found["seconds"].max() == pytest.approx(100)


def test_a_band_ends_where_more_than_half_of_the_runs_have_ended():
    found = band([straight(1, 1, 10), straight(2, 1, 10), straight(3, 1, 100)], 1.0)
    assert found["seconds"].max() <= 10
    assert set(found["runs"]) == {3}


def test_a_running_median_leaves_out_single_points_that_stand_apart():
    run = straight(5, 1, 100)
    run.loc[120, "mean_return"] = 500.0
    assert set(band([run], 1.0)["median"]) == {5.0}
