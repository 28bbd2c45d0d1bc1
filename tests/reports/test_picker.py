"""The bars of a report's first page: expected costs, and what is not known of them."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from reports import picker
from reports.picker import Choice
from suites.statistics.intervals import wider_tail

CHOICE = Choice("w", "m", "", "training")


def frame(system, seconds, machine="m", options="", kind="training"):
    known = {"workload": "w", "machine": machine, "options": options, "threshold_kind": kind, "system": system, "session": "s"}
    lines = []
    for block, time in enumerate(seconds):
        spent = {"measured_s": abs(time), "measured_steps": 10 * abs(time)}
        reached = {"seconds": 1, "steps": 10, "core_seconds": 2}
        lines.append(
            known | {"block": block} | spent | {name: k * time if time > 0 else math.nan for name, k in reached.items()}
        )
    return pd.DataFrame(lines)


class Measured(SimpleNamespace):
    """A dataset; two of them are never the same."""

    __hash__ = object.__hash__


def data(*frames):
    every = pd.concat(frames, ignore_index=True)
    bundles = [SimpleNamespace(manifest=SimpleNamespace(system=one, system_title=one.upper())) for one in set(every["system"])]
    return Measured(series={"crossings": every, "staleness-crossings": pd.DataFrame()}, bundles=bundles)


def test_a_cost_is_all_that_was_spent_over_the_successes():
    (a, b, c) = picker.bars(data(frame("b", [4, -8, 4]), frame("a", [1, 2, 3]), frame("c", [-9, -9, -9])))[CHOICE]
    assert [bar.title for bar in (a, b, c)] == ["A", "B", "C"], "the cheapest first, and what nobody reached last"
    assert a.costs == {"seconds": [2.0, None, None], "steps": [20.0, None, None], "core_seconds": [4.0, None, None]}
    assert (b.costs["seconds"][0], b.costs["steps"][0], b.costs["core_seconds"][0]) == (8.0, 80.0, None)
    assert (b.counted, c.counted, c.costs["seconds"]) == ("2/3", "0/3", [None, None, None])


def test_an_interval_is_that_of_all_resamples():
    times = [3, 4, 5, 9, -7]
    (bar, _) = picker.bars(data(frame("a", times), frame("b", [50] * 5)))[CHOICE]
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 5, (200_000, 5))
    spent, reached = np.abs(times)[drawn].sum(axis=1), np.maximum(1, (np.array(times) > 0)[drawn].sum(axis=1))
    tail = wider_tail(5)
    assert bar.costs["seconds"][1:] == pytest.approx(np.percentile(spent / reached, [tail, 100 - tail]), rel=0.05)


def test_nothing_is_pooled_over_machines_divisions_or_returns_and_second_runs_are_left_out():
    every = [
        frame(name, [1, 2], **more) for name in ("a", "b", "a-again") for more in ({}, {"machine": "n"}, {"options": "x = 1"})
    ]
    found = picker.bars(data(*every, frame("a", [7], kind="evaluated")))
    assert list(found) == [
        Choice("w", "m", "", "training"),
        Choice("w", "m", "x = 1", "training"),
        Choice("w", "n", "", "training"),
    ]
    assert all([bar.system for bar in own] == ["a", "b"] for own in found.values())
    assert picker.first(found) == CHOICE
    assert picker.first({}) is None
