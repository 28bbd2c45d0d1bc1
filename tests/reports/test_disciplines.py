"""What the documentation says of disciplines is what the sealed session says."""

import pytest
from elsewhere import ROOT

from reports import dataset
from reports.disciplines.figures import frontier
from reports.disciplines.view import Ruled
from reports.styles import PAGE
from reports.tables import markdown

COLUMNS = ["Discipline", "Samples/s", "Bound", "Share of the bound", "Over strict's", "Age, mean", "Age p99"]


@pytest.fixture(scope="module")
def view():
    (found,) = Ruled.all(dataset.load([ROOT / "results" / "disciplines" / "cartpole-ppo-straggler-again.parquet"]))
    return found


@pytest.mark.parametrize(("name", "file"), [("straggler", "straggler-again"), ("equal", "equal"), ("unequal", "unequal")])
def test_the_table_of_the_documentation_is_the_sessions(name, file):
    (view,) = Ruled.all(dataset.load([ROOT / "results" / "disciplines" / f"cartpole-ppo-{file}.parquet"]))
    text = (ROOT / "docs" / "disciplines-measured.md").read_text()
    shown = text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- end of {name} -->")[0]
    assert shown.strip() == markdown(view.frame("throughput")[COLUMNS]).strip()


def test_the_rules_at_a_glance_have_the_measured_ratios_and_ages():
    frames = []
    for name in ("equal", "unequal", "straggler-again"):
        (view,) = Ruled.all(dataset.load([ROOT / "results" / "disciplines" / f"cartpole-ppo-{name}.parquet"]))
        frames.append(view.frame("throughput").set_index("Discipline"))
    text = (ROOT / "docs" / "disciplines.md").read_text()
    _, _, *lines = text.partition("<!-- glance -->\n")[2].partition("<!-- end of glance -->")[0].splitlines()
    rows = {cells[0].replace("`", ""): cells[3:5] for line in lines for cells in [line.strip("| ").split(" | ")]}
    assert rows.pop("strict")[0] == "1"
    assert {"quota-free", "exactly-one-round", "admitted, eta = 1", "relaxed", "free", "periodic"} <= rows.keys()
    for name, (ratios, ages) in rows.items():
        assert ratios == ", ".join(frame.loc[name, "Over strict's"].split()[0] for frame in frames)
        assert ages == ", ".join(frame.loc[name, "Age, mean"] for frame in frames)


def test_what_waits_is_told_with_who_waits(view):
    waiting = view.frame("waiting").set_index("Discipline")
    assert float(waiting.loc["strict", "Actors wait for weights"]) > 0.7
    assert float(waiting.loc["admitted, eta = 1", "Actors wait for credit"]) == pytest.approx(0.49, abs=0.02)
    assert float(waiting.loc["no balance", "Learner waits for samples"]) < 0.05


def test_the_sentences_name_what_stays_below_its_bound(view):
    told = "No discipline is shown to stay below 0.9 of what its rule allows; the lowest is relaxed with 0.934 [0.916, 0.951]."
    assert view.findings[0] == told
    assert view.findings[1].startswith("Relaxed trains on 5.23x [5.15, 5.32] as many samples a second as strict")
    # Superseded since, and kept.
    (earlier,) = Ruled.all(dataset.load([ROOT / "results" / "disciplines" / "cartpole-ppo-straggler.parquet"]))
    assert earlier.findings[0] == (
        "These disciplines stay below 0.9 of what their rule allows: admitted, eta = 1, admitted-interruptible, eta = 1."
    )


def test_the_frontier_has_a_mark_for_each_discipline(view):
    with PAGE.applied():
        marks = frontier([view], PAGE).marks
    assert set(marks["system"]) == set(view.shown)
    strict = marks[marks["system"] == "tianji"].iloc[0]
    assert (strict["value"], strict["age"]) == (1.0, 0.0)
    assert frontier([], PAGE) is None
