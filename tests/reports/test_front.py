"""The table of the first page: seconds, who is not beaten, and the verdicts beside them."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from bundles import unpacked

from reports import dataset, front
from reports.front import Column, headline
from reports.picker import Bar
from reports.verdict import verdicts

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "convergence"
pytestmark = pytest.mark.xdist_group("reports-front")


@pytest.fixture(scope="module")
def data():
    return dataset.load([REFERENCE / f"{name}.parquet" for name in ("cartpole-ppo-zoo", "lunarlander-ppo")])


def test_seconds_are_all_time_spent_over_the_number_of_successes(data):
    columns = front.columns(data)
    assert [one.workload for one in columns] == ["cartpole-ppo-zoo", "lunarlander-ppo"]
    every = data.series["crossings"]
    for column in columns:
        own = every[(every["workload"] == column.workload) & (every["threshold_kind"] == "training")]
        for system, cell in column.bars.items():
            runs = own[own["system"] == system]
            spent = sum(line.seconds if line.seconds == line.seconds else line.measured_s for line in runs.itertuples())
            assert cell.runs == len(runs)
            assert cell.reached == runs["seconds"].notna().sum()
            assert cell.seconds == (pytest.approx(spent / cell.reached) if cell.reached else None)


def test_bold_is_what_is_not_shown_to_be_slower_than_the_best(data):
    column = front.columns(data)[0]
    best = min((name for name, bar in column.bars.items() if bar.seconds), key=lambda name: column.bars[name].seconds)
    assert best in column.best
    assert column.best.isdisjoint(("rllib", "sb3"))
    counts = {"a": (3 * 3.14159, 3, 3), "b": (7 * 12.34, 7, 8), "c": (60.0, 0, 5)}
    bars = {name: Bar(name, name, reached, runs, {}, spent_s) for name, (spent_s, reached, runs) in counts.items()}
    column = Column("w", "m", "ppo", 1.0, bars, {"a"})
    assert [column.words(name) for name in "abcd"] == ["**3.14**", "12.3 (7/8)", "> 60.0 (0/5)", "-"]


def test_verdicts_in_the_table_are_those_of_the_engine(data):
    columns, head = front.columns(data), headline(data)
    lines = {line.system: line for line in front.lines(data, columns, head)}
    assert next(iter(lines)) == "tianji"
    of = {(one.question.id, one.opponent): one for one in verdicts(data)}
    assert lines["rllib"].verdicts == [of["ppo", "rllib"]]
    assert lines["tianji"].verdicts == [None]
    assert [one.opponent for one in front.of_one_workload(head)] == ["rllib", "sb3"]
    assert front.said(of["ppo", "rllib"]) == "not measured: acrobot-ppo"
    assert front.said(of["ppo-lander", "sb3"]).startswith("faster: ")
    assert front.said(None) == "-"


def test_a_tuned_ratio_is_over_the_system_that_is_nearest_in_the_closed_division(tmp_path):
    data = dataset.load([REFERENCE / f"{name}.parquet" for name in ("cartpole-ppo-open-eight", "cartpole-ppo-every-system")])
    found = front.tuned(data, front.columns(data))
    row = data.table.one(
        metric="time_to_threshold_ratio", threshold_kind="training", system="tianji", baseline="sbx", division="open"
    )
    assert (found.title, found.blocks) == ("SBX", 5)
    assert row["censored"] or found.ratio.value == pytest.approx(row["value"])
    assert found.ratio.low < found.ratio.value < found.ratio.high


def test_claims_of_one_sentence_are_one_line():
    one = SimpleNamespace(front="Twice as fast", verdict="direction holds", steelman=False, share=False, evidence=[])
    shown = SimpleNamespace(value=1.5, ci_low=1.2, corrected_low=1.1, beside=None, system="tianji")
    two = SimpleNamespace(front="Twice as fast", verdict="contradicted", steelman=True, share=False, evidence=[shown])
    hidden = SimpleNamespace(front=None)
    (line,) = front.papers([one, two, hidden])
    assert line == ("Twice as fast", "*direction holds*; *contradicted* (1.50x)")


def test_an_open_claim_says_how_far_down_it_is_open():
    ends = [
        SimpleNamespace(value=value, corrected_low=low, beside=None, system="tianji")
        for value, low in ((9.2, 5.8), (11.1, 0.82))
    ]
    one = SimpleNamespace(front="x", verdict="inconclusive", steelman=False, share=False, evidence=ends)
    other = SimpleNamespace(front="y", verdict="holds in analogue", steelman=False, share=True, evidence=ends[:1])
    assert [line.here for line in front.papers([one, other])] == [
        "*inconclusive* (9.20x to 11.1x, from 0.820x)",
        "*holds on a small machine* (9.20 of the ceiling)",
    ]


def test_a_small_session_has_a_column_of_its_own():
    data = dataset.load([unpacked("docs/results/smoke.parquet")])
    assert [one.workload for one in front.columns(data)] == ["cartpole-ppo-zoo"]
    assert front.tuned(data, front.columns(data)) is None
    assert front.waiting(data) == []


@pytest.mark.parametrize(
    ("of", "files", "count", "makers"),
    [
        ("Pictures", front.RATES["Pictures"], 4, {"sb3": "Stable-Baselines3"}),
        ("SAC", ["sac-brief"], 3, {"sbx": "SBX", "sb3": "Stable-Baselines3"}),
    ],
)
def test_rates_are_ratios_of_steps_a_second_over_the_quickest_form(of, files, count, makers):
    again = REFERENCE.parents[1] / "again" / "convergence"
    data = dataset.load([again / f"{name}.parquet" for name in files])
    found = front.rates(data)
    assert [(one.workload, one.maker, one.blocks) for one in found] == [
        (name, maker, 5) for name in front.RATES[of] for maker in makers.values()
    ]
    ids = {maker: name for name, maker in makers.items()}
    every = data.series["crossings"]
    every = every[every["threshold_kind"] == "training"].assign(rate=lambda runs: runs["measured_steps"] / runs["measured_s"])
    for one in found:
        rate = every[every["workload"] == one.workload].pivot(index="block", columns="system", values="rate")
        logs = np.log(rate)
        forms = [name for name in rate if not name.startswith("tianji")]
        best = logs[[name for name in forms if name.partition("-")[0] == ids[one.maker]]].mean().idxmax()
        assert logs[forms].mean().idxmax() == best or one.maker != next(iter(makers.values()))
        assert len(forms) == count
        apart = logs["tianji"] - logs[best]
        assert one.ratio.value == pytest.approx(np.exp(apart.mean()))
        half = 2.776 * apart.std() / 5**0.5
        assert np.log([one.ratio.low, one.ratio.high]) == pytest.approx([apart.mean() - half, apart.mean() + half], abs=1e-3)
    assert front.rates(dataset.load([REFERENCE / "cartpole-ppo-zoo.parquet"])) == []


def test_a_game_is_told_in_minutes_with_runs_that_missed():
    data = dataset.load([REFERENCE.parents[1] / "again" / "convergence" / "pong42-ppo.parquet"])
    found = front.game(data)
    every = data.series["crossings"]
    every = every[every["threshold_kind"] == "training"].set_index("system")
    assert (found.workload, found.target, found.runs) == ("pong42-ppo", 18.0, 1)
    assert len(found.told) == len(every) == 3
    reached = every["seconds"].dropna().sort_values()
    for told, (system, seconds) in zip(found.told, reached.items(), strict=False):
        title = next(b.manifest.system_title for b in data.bundles if b.manifest.system == system)
        assert told == f"{seconds / 60:.3g} {title}"
    assert sum("(0/1)" in one for one in found.told) == len(every) - len(reached)
    assert front.game(dataset.load([REFERENCE / "cartpole-ppo-zoo.parquet"])) is None
