"""What a trial came to: seconds to the return, or the whole budget and what was missing."""

import math

from bundles import WORKLOAD, make

from suites.records import bundle
from suites.records.events import Episode, FirstStep, Snapshot
from suites.tuning.analysis import outcome, ranked

SETTINGS = {"workload": WORKLOAD | {"budget_seconds": 30.0}}
NS = 10**9


def trial(folder, name, episode_return, after_s, count=100, **more):
    events = [FirstStep(0), *(Episode(after_s * NS, episode_return, 1, 9) for _ in range(count)), Snapshot(40 * NS, 9, 1, "f")]
    return bundle.read(make(folder, name, events, configuration=SETTINGS, **more))


def test_seconds_come_first_then_the_best_return_and_failed_ones_last(tmp_path):
    found = {
        "failed": trial(tmp_path, "failed", 25.0, 1, status="failed"),
        "silent": trial(tmp_path, "silent", 25.0, 1, count=99),
        "poor": trial(tmp_path, "poor", 5.0, 1),
        "near": trial(tmp_path, "near", 19.0, 1),
        "slow": trial(tmp_path, "slow", 25.0, 20),
        "fast": trial(tmp_path, "fast", 25.0, 3),
    }
    assert [b.path.name for b in ranked(list(found.values()))] == ["fast", "slow", "near", "poor", "failed", "silent"]
    assert outcome(found["fast"]) == (3.0, 25.0, 3.0)
    assert outcome(found["near"]) == (None, 19.0, 30.0 + 1.0)
    assert outcome(found["silent"]) == (None, None, math.inf)


def test_no_run_counts_with_more_than_the_budget(tmp_path):
    assert outcome(trial(tmp_path, "late", 25.0, 31)).loss == 30.0
