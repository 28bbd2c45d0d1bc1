"""What figures of the convergence suite are made of."""

import dataclasses

import matplotlib.pyplot as plt
import pandas as pd
from bundles import unpacked

from reports import dataset
from reports.convergence.figures import curves, lowest
from reports.convergence.view import Trained
from reports.styles import PAGE
from suites.statistics.crossings import KINDS

WORKLOAD = "cartpole-ppo-zoo"
RECORDED = unpacked("docs/results/smoke.parquet")


def view(data):
    return next(view for view in Trained.all(data) if view.workload == WORKLOAD)


def test_an_axis_of_returns_begins_at_0_or_below_all_points_but_the_lowest():
    data = dataset.load([RECORDED])
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
    figure = curves(view(data), PAGE).figure
    assert {axis.get_ylim()[0] for axis in figure.axes} == {begins}
    plt.close(figure)
    nothing = {name: data.series[name][:0] for name in lower}
    assert lowest(view(dataclasses.replace(data, series=data.series | nothing))) == 0
