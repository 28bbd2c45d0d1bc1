"""Tables that a report is made of: curves thinned to what a page can draw."""

import numpy as np
import pandas as pd
import pytest

from reports.summaries import CURVE_POINTS, thin

RUNS = ["workload", "system", "session", "block"]


def curves(lengths):
    """Curves of runs in an order that is not theirs, each with rows in order."""
    rows = [
        {"workload": "w", "system": f"s{run % 2}", "session": "a", "block": run, "steps": step, "mean_return": 0.1 * step}
        for run, length in reversed(list(enumerate(lengths)))
        for step in range(length)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("lengths", [[1], [CURVE_POINTS], [3, CURVE_POINTS + 1, 7 * CURVE_POINTS + 3, 2]])
def test_a_curve_keeps_its_last_point_and_evenly_picked_ones_before(lengths):
    every = curves(lengths)
    kept = thin(every)
    picked = []
    for _, run in every.groupby(RUNS, sort=True):
        step = -(-len(run) // CURVE_POINTS)
        picked += [run.iloc[at] for at in range(len(run)) if (len(run) - 1 - at) % step == 0]
    pd.testing.assert_frame_equal(kept, pd.DataFrame(picked).reset_index(drop=True).astype(every.dtypes))
    assert kept.groupby(RUNS)["steps"].max().tolist() == every.groupby(RUNS)["steps"].max().tolist()
    assert kept.groupby(RUNS).size().max() <= CURVE_POINTS


def test_nothing_is_thinned_to_nothing():
    nothing = pd.DataFrame(columns=[*RUNS, "steps", "mean_return"])
    assert thin(nothing) is nothing
    assert np.isfinite(thin(curves([2]))["mean_return"]).all()
