"""Trials of the regression gate: planted slowdowns have their stated effect, and the document matches the records."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from commands import refusal

from benchmarks.gate import planted, trials
from programs.cli import run
from tianji.algorithms import ppo
from tianji.algorithms.vtrace import generalised_advantages

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "docs" / "results" / "regression.parquet"


class Clock:
    """Goes on by itself a little with every look at it, and by what work takes."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        self.now += 100
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(planted, "time", SimpleNamespace(perf_counter_ns=made))
    return made


def test_a_slowed_method_takes_longer_and_one_within_another_is_slowed_once(clock):
    class Part:
        def work(self):
            clock.now += 1_000_000

        def twice(self):
            self.work()
            self.work()

    planted.slow_down(Part, "work")
    planted.slow_down(Part, "twice")
    for name, plain in (("work", 1_000_000), ("twice", 2_000_000)):
        before = clock.now
        getattr(Part(), name)()
        assert clock.now - before == pytest.approx(1.15 * plain, rel=0.01)


def test_what_is_too_short_to_be_paid_at_once_is_paid_together(clock):
    class Part:
        def work(self):
            clock.now += 10_000

    planted.slow_down(Part, "work")
    for _ in range(1000):
        Part().work()
    # The wrapper is taken to cost something itself, which this clock does not see.
    assert clock.now == pytest.approx(1000 * (11_500 - planted.OVERHEAD_NS), rel=0.05)


def test_the_planted_bug_forgets_that_episodes_end(monkeypatch):
    monkeypatch.setattr(ppo, "generalised_advantages", ppo.generalised_advantages)
    planted.learning()
    ones, never = np.ones((3, 1)), np.zeros((3, 1), bool)
    ended = np.array([[False], [True], [False]])
    assert np.array_equal(
        ppo.generalised_advantages(ones, ones, ones, ended, never, 0.99, 0.95),
        generalised_advantages(ones, ones, ones, never, never, 0.99, 0.95),
    )


def test_trials_are_counted_by_what_was_planted():
    found = trials.recorded(RECORDED)
    assert len(found[trials.NOTHING]) >= 60
    assert {kind: len(found[kind]) for kind in planted.KINDS} == dict.fromkeys(planted.KINDS, 10)


def test_the_document_says_what_was_recorded():
    told = "\n".join(trials.lines(trials.recorded(RECORDED)))
    assert told in (ROOT / "docs" / "ci.md").read_text()


def test_bad_arguments_are_refused_in_one_line(capsys, tmp_path):
    for arguments, says in (
        ([], "give one of --out and --show"),
        (["--show", str(tmp_path)], "holds no finished trials"),
        (["--out", str(tmp_path), "--kinds", "nothing,everything"], "unknown kind 'everything'"),
    ):
        assert says in refusal(capsys, run, "trials", trials.main, arguments)
