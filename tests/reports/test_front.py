"""The table of the first page: seconds, who is not beaten, and the verdicts beside them."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from bundles import unpacked

from reports import dataset, front
from reports.front import Cell
from reports.headline import headline
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
        for system, cell in column.cells.items():
            runs = own[own["system"] == system]
            spent = sum(line.seconds if line.seconds == line.seconds else line.measured_s for line in runs.itertuples())
            assert cell.runs == len(runs)
            assert cell.reached == runs["seconds"].notna().sum()
            assert cell.seconds == (pytest.approx(spent / cell.reached) if cell.reached else None)


def test_bold_is_what_is_not_shown_to_be_slower_than_the_best(data):
    cells = front.columns(data)[0].cells
    best = min((name for name in cells if cells[name].seconds), key=lambda name: cells[name].seconds)
    assert not cells[best].beaten
    assert cells["rllib"].beaten
    assert cells["sb3"].beaten
    assert Cell(3.14159, 9.4, 3, 3, False).words == "**3.14**"
    assert Cell(12.34, 99.0, 7, 8, True).words == "12.3 (7/8)"
    assert Cell(None, 60.0, 0, 5, True).words == "> 60.0 (0/5)"


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
    shown = SimpleNamespace(value=1.5, beside=None, system="tianji")
    two = SimpleNamespace(front="Twice as fast", verdict="contradicted", steelman=True, share=False, evidence=[shown])
    hidden = SimpleNamespace(front=None)
    (line,) = front.papers([one, two, hidden])
    assert line == ("Twice as fast", "*direction holds*; *contradicted* (1.50x, rebuilt on our kernels)")


def test_a_small_session_has_a_column_of_its_own():
    data = dataset.load([unpacked("docs/results/smoke.parquet")])
    assert [one.workload for one in front.columns(data)] == ["cartpole-ppo-zoo"]
    assert front.tuned(data, front.columns(data)) is None
    assert front.waiting(data) == []
