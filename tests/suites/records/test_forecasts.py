"""Files of predictions: read as written, and apart from runs."""

import pytest
from bundles import EVENTS, make

from suites.records import forecasts
from suites.records.bundle import BundleError
from suites.records.forecasts import SCHEMA, SUFFIX, Forecasts, Point

POINT = Point("groups", "strict", 1.0, 16, 32, 1000.0, 0.0, "learner", "tianji")
FOUND = Forecasts(SCHEMA, "ppo-cpu-weak", "netns", 1.0, "a command", "a commit", "a file", {"fragment": 0.01}, [POINT])


def test_what_was_written_is_read(tmp_path):
    forecasts.write(FOUND, tmp_path / f"one{SUFFIX}")
    (tmp_path / "other.json").write_text("{}")
    assert forecasts.read([tmp_path]) == [FOUND]
    assert forecasts.read([tmp_path / f"one{SUFFIX}", tmp_path]) == [FOUND]


def test_a_damaged_file_is_one_line(tmp_path):
    (tmp_path / f"one{SUFFIX}").write_text('{"schema": "tianji-bench/forecast/1"}')
    with pytest.raises(BundleError, match=r"one.forecast.json: no forecast: .*experiment"):
        forecasts.read([tmp_path])


def test_places_of_runs_are_told_from_those_of_predictions_alone(tmp_path):
    alone, both = tmp_path / "alone", tmp_path / "both"
    for folder in (alone, both):
        folder.mkdir()
        forecasts.write(FOUND, folder / f"one{SUFFIX}")
    make(both / "run", EVENTS)
    assert forecasts.measured([alone, both, alone / f"one{SUFFIX}"]) == [both]
    # With nothing else, the reader of runs says what is missing.
    assert forecasts.measured([alone]) == [alone]
