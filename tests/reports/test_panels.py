"""What figures of the convergence suite are made of."""

import dataclasses

import matplotlib.pyplot as plt
import pandas as pd
from bundles import unpacked

from reports import dataset
from reports.convergence import figures, panels
from suites.statistics.crossings import KINDS

WORKLOAD = "cartpole-ppo-zoo"
RECORDED = unpacked("docs/results/smoke.parquet")


def test_an_axis_of_returns_begins_at_0_or_below_all_points_but_the_lowest():
    data = dataset.load([RECORDED])
    assert panels.lowest(data, WORKLOAD) == 0
    lower = {
        f"curves-{kind}": frame.assign(mean_return=frame["mean_return"] - 300)
        for kind in KINDS
        for frame in [data.series[f"curves-{kind}"]]
    }
    data = dataclasses.replace(data, series=data.series | lower)
    begins = panels.lowest(data, WORKLOAD)
    assert begins < 0
    ran = pd.concat([frame["mean_return"][frame["workload"] == WORKLOAD] for frame in lower.values()])
    assert 0 < (ran < begins).mean() <= 0.05
    figure = figures.learning_curves(data, WORKLOAD)
    assert {axis.get_ylim()[0] for axis in figure.axes} == {begins}
    plt.close(figure)
    assert panels.lowest(data, "unheard-of") == 0
