"""Learning curves of several runs as one."""

import numpy as np
import pandas as pd
import pytest

from reports.training import band


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


def test_a_band_may_be_along_steps():
    run = straight(5, 1, 100).rename(columns={"seconds": "steps"})
    assert set(band([run], 1.0, "steps", 10)["median"]) == {5.0}
    assert next(iter(band([run], 1.0, "steps", 10).columns)) == "steps"
