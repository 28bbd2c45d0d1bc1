"""What a trial came to: seconds to the return, or its budget and what time and return say of the way to it."""

import math

import pytest
from bundles import WORKLOAD, make

from suites.records import bundle
from suites.records.events import Episode, FirstStep, Snapshot
from suites.tuning.analysis import least, outcome, ranked

BUDGET_S = 30.0
NS = 10**9


def trial(folder, name, returns, seconds, wanted=20.0, **more):
    """A run whose episodes end at equal distances of time and which lasts some seconds."""
    gap = seconds * NS / len(returns)
    events = [
        FirstStep(0),
        *(Episode(round(gap * i), float(value), 1, 9) for i, value in enumerate(returns, 1)),
        Snapshot(round(seconds * NS), 9, 1, "f"),
    ]
    workload = WORKLOAD | {"budget_seconds": BUDGET_S, "thresholds": WORKLOAD["thresholds"] | {"training": wanted}}
    return bundle.read(make(folder, name, events, configuration={"workload": workload, "options": {"of": name[0]}}, **more))


def towards(best, start=5.0, count=400):
    """A learning curve: a straight line of returns, and a hundred episodes at its end."""
    return [start + (best - start) * min(1.0, i / (count - 100)) for i in range(count)]


def loss(folder, name, *run, **more):
    return outcome(trial(folder, name, *run, **more)).loss


def test_runs_that_reached_the_return_come_first_and_failed_ones_last(tmp_path):
    found = {
        "failed": trial(tmp_path, "failed", [25.0] * 100, 1, status="failed"),
        "silent": trial(tmp_path, "silent", [25.0] * 99, 1),
        "poor": trial(tmp_path, "poor", towards(6.0), 1),
        "near": trial(tmp_path, "near", towards(19.0), 1),
        "slow": trial(tmp_path, "slow", [25.0] * 100, 29),
        "fast": trial(tmp_path, "fast", [25.0] * 100, 3),
    }
    assert [b.path.name for b in ranked(list(found.values()))] == ["fast", "slow", "near", "poor", "failed", "silent"]
    assert outcome(found["fast"]) == (3.0, 25.0, 3.0)
    assert outcome(found["silent"]) == outcome(found["failed"]) == (None, None, math.inf)


def test_no_run_that_reached_the_return_counts_with_more_than_the_budget_and_every_other_does(tmp_path):
    assert loss(tmp_path, "late", [25.0] * 100, 31) == BUDGET_S
    # However quick it was, and however little was missing.
    assert BUDGET_S < loss(tmp_path, "quick", towards(19.999), 0.001) < BUDGET_S + 0.01
    assert loss(tmp_path, "slow", towards(5.0), 10_000) < 2 * BUDGET_S


def test_the_loss_is_the_stated_formula(tmp_path):
    # 10 on the way from 5 to 25, in 4 s: a half, so a straight line takes 8 s.
    returns = [5.0] * 20 + [15.0] * 100
    assert outcome(trial(tmp_path, "half", returns, 4, wanted=25.0)) == (
        None,
        15.0,
        pytest.approx(BUDGET_S + 1 / (1 / BUDGET_S + 1 / 8)),
    )


@pytest.mark.parametrize(("start", "best", "wanted"), [(5.0, 12.0, 20.0), (-500.0, -300.0, -100.0), (-200.0, 40.0, 200.0)])
def test_of_equal_curves_the_faster_is_better_and_at_equal_speed_the_better_curve(tmp_path, start, best, wanted):
    def of(name, reached, seconds):
        return loss(tmp_path, name, towards(reached, start), seconds, wanted=wanted)

    losses = [of(f"s{s}", best, s) for s in (1, 2, 2.1, 9, 28)]
    assert losses == sorted(losses)
    assert len(set(losses)) == len(losses)
    learnt = [of(f"r{share}", start + share * (wanted - start), 4) for share in (0.9, 0.5, 0.3, 0.1, 0.05)]
    assert learnt == sorted(learnt)
    assert len(set(learnt)) == len(learnt)


def test_speed_and_return_count_together(tmp_path):
    """Half of the way in 2 s is better than the same in 3 s, than 70 % in 3 s, and not than 70 % in 2.5 s."""
    one = loss(tmp_path, "one", towards(12.5), 2)
    assert one < loss(tmp_path, "same", towards(12.5), 3)
    assert one < loss(tmp_path, "longer", towards(15.5), 3)
    assert one > loss(tmp_path, "better", towards(15.5), 2.5)


@pytest.mark.parametrize("last", [5.0, 1.0])
def test_without_progress_the_loss_is_finite_and_speed_is_all_that_counts(tmp_path, last):
    slow, fast = (loss(tmp_path, f"s{s}", towards(last), s) for s in (9, 3))
    assert loss(tmp_path, "some", towards(9.0), 9) < fast < slow < 2 * BUDGET_S


def test_a_run_that_began_above_the_return_and_missed_it_made_no_progress(tmp_path):
    assert loss(tmp_path, "fell", [25.0] * 20 + [1.0] * 100, 3) == pytest.approx(BUDGET_S + 1 / (1 / BUDGET_S + 0.01 / 3))


def test_what_learns_within_the_first_hundred_episodes_has_made_progress(tmp_path):
    """There is one mean of a hundred, so its distance to an earlier one says nothing."""
    learnt, idle = [5.0] * 20 + [18.0] * 80, [5.0] * 100
    assert loss(tmp_path, "learnt", learnt, 3) < loss(tmp_path, "idle", idle, 3)


def test_one_run_without_progress_does_not_decide_over_a_mean_of_seeds(tmp_path):
    """Setting a reached the return with two of three seeds, and b with one."""
    runs = [trial(tmp_path, f"a{i}", [25.0] * 100, 3) for i in range(2)] + [trial(tmp_path, "a2", towards(5.0), 3)]
    runs += [trial(tmp_path, "b0", [25.0] * 100, 3)] + [trial(tmp_path, f"b{i}", towards(19.0), 3) for i in (1, 2)]
    assert least(runs) == {"of": "a"}
