"""Declared questions and their verdicts: one family a question, and the same words for the same runs."""

import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from run_times import runs

from reports.dataset import without_unfinished
from reports.verdict import MOST_BLOCKS, Question, questions, verdicts
from suites.records import archive, notes, store
from suites.records.notes import Series
from suites.session import catalogue

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
QUESTION = Question(id="q", asks="Who?", algorithm="ppo", workloads=("w",), opponents=("b", "c", "d", "e"))


def manifest(workload, system):
    budget = {"workload": {"budget_steps": 1000}}
    return SimpleNamespace(
        manifest=SimpleNamespace(workload=workload, system=system, system_title=system.upper(), configuration=budget)
    )


def data(workloads, begun=(), stated=(), **systems):
    """A dataset of runs: times of each system on each of these workloads."""
    rows = [
        line | {"workload": workload, "threshold_kind": "training", "options": ""}
        for workload in workloads
        for system, times in systems.items()
        for line in runs(times, system)
    ]
    series = {"crossings": pd.DataFrame(rows), "staleness-crossings": pd.DataFrame()}
    bundles = [manifest(workload, one) for workload in workloads for one in systems]
    return SimpleNamespace(series=series, bundles=bundles, begun=begun, stated=dict(stated))


def words(found):
    return {one.opponent: one.word for one in found}


def scattered(mean, scatter, n=10, seed=0):
    noise = np.random.default_rng(seed).normal(0, scatter, n)
    return list(np.exp(math.log(mean) + noise - noise.mean()))


def test_each_word_is_given_where_it_belongs():
    ours = [1.0] * 10
    found = verdicts(
        data(["w"], tianji=ours, b=scattered(3.0, 0.2), c=scattered(0.5, 0.2), d=scattered(1.0, 0.02), e=scattered(1.2, 0.5)),
        asked=[QUESTION],
    )
    assert words(found) == {"b": "faster", "c": "slower", "d": "the same", "e": "not measured enough"}
    last = found[-1]
    assert last.more > 0
    assert last.said == f"not measured enough: {last.more} more blocks"
    assert found[0].figure.startswith("3.00x [")


def test_holm_is_over_the_opponents_of_a_question_and_never_hides_a_loss():
    ours, near = [1.0] * 10, scattered(1.16, 0.2, seed=5)
    (alone,) = verdicts(data(["w"], tianji=ours, b=near), asked=[QUESTION])
    assert (alone.word, alone.p) == ("faster", alone.ratio.p)
    others = {name: scattered(1.0, 0.4, seed=seed) for seed, name in enumerate("cde")}
    among = verdicts(data(["w"], tianji=ours, b=near, **others), asked=[QUESTION])
    assert among[0].p == pytest.approx(4 * alone.p)
    assert among[0].word == "not measured enough"
    slow = verdicts(data(["w"], tianji=ours, b=[1 / one for one in near], **others), asked=[QUESTION])
    assert slow[0].word == "slower"


def test_without_a_workload_there_is_an_estimate_and_no_verdict():
    question = Question(id="q", asks="Who?", algorithm="ppo", workloads=("w", "other"), opponents=("b", "c"))
    (one,) = verdicts(data(["w"], tianji=[1.0] * 5, b=scattered(9.0, 0.1, 5)), asked=[question])
    assert (one.word, one.said, one.p) == ("not measured", "not measured: other", None)
    assert one.ratio.value == pytest.approx(9.0)
    assert [v.opponent for v in verdicts(data(["w", "other"], tianji=[1.0] * 5, b=[2.0] * 5), asked=[question])] == ["b"]


def test_few_blocks_and_a_difference_that_is_too_small_are_told_apart():
    few = verdicts(data(["w"], tianji=[1.0] * 3, b=[2.0] * 3), asked=[QUESTION])
    assert (few[0].word, few[0].more) == ("not measured enough", 2)
    tiny = verdicts(data(["w"], tianji=[1.0] * 20, b=scattered(1.01, 0.5, 20)), asked=[QUESTION])
    assert (tiny[0].word, tiny[0].more) == ("not decidable here", None)


def test_as_many_more_blocks_as_it_says_show_such_a_ratio_four_times_in_five():
    rng = np.random.default_rng(6)
    question = Question(id="q", asks="Who?", algorithm="ppo", workloads=("w",), opponents=("b",))
    (one,) = verdicts(data(["w"], tianji=[1.0] * 10, b=scattered(1.2, 0.5)), asked=[question])
    n = 10 + one.more
    assert n <= MOST_BLOCKS
    logs = rng.normal(math.log(1.2), 0.5 * math.sqrt(10 / 9), (4000, n))
    scale = np.random.default_rng(0).normal(0, 0.5, 10).std(ddof=1) / (0.5 * math.sqrt(10 / 9))
    logs = (logs - math.log(1.2)) * scale + math.log(1.2)
    t = logs.mean(axis=1) / (logs.std(axis=1, ddof=1) / math.sqrt(n))
    assert np.mean(t > 2.0) == pytest.approx(0.8, abs=0.05)


def test_runs_that_missed_are_counted_first():
    (one,) = verdicts(data(["w"], tianji=[1.0] * 5, b=[-9.0] * 5), asked=[QUESTION])
    assert one.figure.startswith("> 9.00x")
    assert one.reached == "w: 5/5 runs of TianJi, 0/5 of it reached the return"
    assert one.word == "faster"


def test_a_run_that_the_clock_ended_says_after_how_many_steps():
    some = data(["w"], tianji=[1.0] * 5, b=[-9.0] * 5, c=[2.0] * 5)
    every = some.series["crossings"]
    every.loc[every["system"] == "b", "measured_steps"] = [190, 200, 950, 190, 1000]
    found = {one.opponent: one for one in verdicts(some, asked=[QUESTION])}
    assert found["b"].reached.endswith("; w: the clock ended 3 runs of b after 190 to 200 of 1000 steps")
    assert found["c"].reached == ""


def test_a_verdict_is_of_the_newest_series_alone():
    series = Series("w", "2026-11-28T09:00:00Z", "new code")
    early, late = (SimpleNamespace(written=written) for written in ("2026-11-01T00:00:00Z", "2026-11-28T09:00:00Z"))
    some = data(
        ["w"],
        begun=[series],
        stated={"old": early, "new": late},
        tianji=[1.0] * 10,
        b=scattered(2.0, 0.1),
        c=scattered(4.0, 0.1),
    )
    every = some.series["crossings"]
    again = every.assign(session="old")
    again.loc[again["system"] == "b", "seconds"] *= 8
    some.series["crossings"] = pd.concat([every[every["system"] != "c"].assign(session="new"), again], ignore_index=True)
    b, c = verdicts(some, asked=[QUESTION])
    assert (b.ratio.value, b.terms["w"].pairs) == (pytest.approx(2.0), 10)
    # A pair that the new series does not have is that of the older one.
    assert c.ratio.value == pytest.approx(4.0)


def test_a_series_is_not_looked_at_before_its_planned_blocks_are_there():
    def run(session, seed, workload="w"):
        return SimpleNamespace(manifest=SimpleNamespace(workload=workload, session=session, seed=seed))

    series = Series("w", "2026-11-28T09:00:00Z", "new code", 3)
    stated = {name: SimpleNamespace(written=at) for name, at in (("old", "2026-11-01"), ("new", "2026-11-28T10:00:00Z"))}
    old, new = [run("old", seed) for seed in range(5)], [run("new", seed) for seed in (7, 7, 8)]
    other = run("new", 9, "another")
    kept, told = without_unfinished([*old, *new, other], stated, [series])
    assert kept == [*old, other]
    assert told == ["left out: 3 runs of w, of a series of which 2 of 3 blocks are there"]
    whole = [*old, *new, run("new", 9)]
    assert without_unfinished(whole, stated, [series]) == (whole, [])
    assert without_unfinished(new, stated, [series]) == (new, []), "what is alone is shown as it is"


def test_a_mark_takes_no_loss_away():
    marked = Question(id="q", asks="Who?", algorithm="ppo", workloads=("w",), opponents=("b",), marked={"b": "other clips"})
    (one,) = verdicts(data(["w"], tianji=[1.0] * 10, b=scattered(0.5, 0.1)), asked=[marked])
    assert (one.word, one.mark) == ("slower", "other clips")


def test_questions_are_of_known_workloads_and_systems():
    asked = questions()
    assert len({one.id for one in asked}) == len(asked)
    for one in asked:
        assert {catalogue.load(name).algo for name in one.workloads} == {one.algorithm}
        assert one.marked.keys() <= set(one.opponents)


@pytest.mark.parametrize("place", ["reports", "suites/session"])
def test_one_function_makes_verdicts(place):
    """Of the modules that report, one alone turns an estimate into the words of a verdict."""
    judges = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / place).rglob("*.py")
        if re.search(r'"not measured enough"|holm\(', path.read_text())
    ]
    assert judges == (["reports/verdict.py"] if place == "reports" else [])


def test_the_readme_reads_every_sealed_session_that_answers_a_question():
    """A session that answers a declared question counts, whatever it found."""
    text = (ROOT / "noxfile.py").read_text()
    shown = re.search(r"^SHOWN = \((.*?)\)", text, re.S | re.M)[1]
    places = [RESULTS / one for one in re.findall(r'"([^"]+)"', shown)]
    asked = {(name, one.ours, opponent) for one in questions() for name in one.workloads for opponent in one.opponents}
    noted = notes.notes(RESULTS / notes.FILE)
    for path in store.sealed([RESULTS]):
        note = noted.get(path.relative_to(RESULTS).as_posix())
        if any(place == path or place in path.parents for place in places) or (note and note.superseded):
            continue
        manifests, _ = archive.manifests(path)
        systems: dict[tuple, set] = {}
        for m in manifests:
            if m.suite in ("convergence", "staleness") and m.division == "closed" and not m.tuned and not m.axes:
                systems.setdefault((m.workload, m.block), set()).add(m.system)
        met = {w for (w, _), own in systems.items() for name, a, b in asked if name == w and {a, b} <= own}
        assert not met, f"{path.name} answers a question on {met}, and the README does not read it"
