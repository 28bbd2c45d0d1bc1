"""What the documentation says of disciplines is what the sealed session says."""

import math

import numpy as np
import pandas as pd
import pytest
from elsewhere import ROOT

from reports import dataset
from reports.disciplines.figures import frontier
from reports.disciplines.view import Ruled
from reports.styles import PAGE
from reports.tables import markdown

STRAGGLER = ROOT / "results" / "disciplines" / "cartpole-ppo-straggler-again.parquet"
COLUMNS = ["Discipline", "Samples/s", "Bound", "Share of the bound", "Over strict's", "Age, mean", "Age p99"]


@pytest.fixture(scope="module")
def view():
    (found,) = Ruled.all(dataset.load([STRAGGLER]))
    return found


@pytest.mark.parametrize(("name", "file"), [("straggler", "straggler-again"), ("equal", "equal"), ("unequal", "unequal")])
def test_the_table_of_the_documentation_is_the_sessions(name, file):
    (view,) = Ruled.all(dataset.load([ROOT / "results" / "disciplines" / f"cartpole-ppo-{file}.parquet"]))
    text = (ROOT / "docs" / "notebook" / "2026-11-disciplines.md").read_text()
    shown = text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- end of {name} -->")[0]
    assert shown.strip() == markdown(view.frame("throughput")[COLUMNS]).strip()


def learnt(name):
    """The view of a session on the way to a return, and the table that the documentation has of it."""
    (view,) = Ruled.all(dataset.load([ROOT / "results" / "disciplines" / f"{name}.parquet"]))
    throughput, steps, seconds = (view.frame(kind).set_index("Discipline") for kind in ("throughput", "returns", "seconds"))
    over = f"Over {view.discipline(view.strict)}'s"
    columns = {
        f"Samples/s {over.lower()}": throughput["Over strict's"],
        "Age, mean": throughput["Age, mean"],
        "Steps, evaluated": steps[f"{over}, evaluated"],
        "Seconds, training": seconds[f"{over}, training"],
        "Seconds, evaluated": seconds[f"{over}, evaluated"],
    }
    return view, pd.DataFrame(columns).reset_index()


@pytest.mark.parametrize(
    ("name", "file"), [("tail", "cartpole-ppo-tail"), ("acrobot-tail", "acrobot-ppo-tail"), ("dqn-tail", "cartpole-dqn-tail")]
)
def test_the_tables_on_the_way_to_a_return_are_the_sessions(name, file):
    text = (ROOT / "docs" / "notebook" / "2026-11-disciplines.md").read_text()
    shown = text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- end of {name} -->")[0]
    assert shown.strip() == markdown(learnt(file)[1]).strip()


def test_a_ratio_of_seconds_counts_every_run_where_a_side_missed_the_return():
    view, _ = learnt("cartpole-ppo-tail")
    told = view.seconds("tianji-relaxed", "training")
    assert told.leading is told.mean is not None
    pair = {"threshold_kind": "training", "baseline": "tianji-relaxed"}
    assert view.row("tianji", "time_to_threshold_ratio", **pair)["censored"] == 1
    seconds = view.frame("seconds").set_index("Discipline")
    assert seconds.loc["relaxed", "Over strict's, training"].endswith("†")
    assert view.findings[-1].startswith(
        "To the training return it takes 0.435x [0.365, 0.481] the seconds of strict (restricted"
    )


def test_what_the_documentation_says_of_a_tail_is_what_its_distribution_gives():
    """Steps that are under way when a round closes, and the rule `admitted-in-order` played with drawn fragments."""
    rng = np.random.default_rng(0)
    view, _ = learnt("cartpole-ppo-tail")
    simulator = view.description["simulator"]
    sigma, mean_s = simulator["sigma"], simulator["step_seconds"]
    mu = math.log(mean_s) - sigma**2 / 2
    # At some moment a step of length x is under way with a chance that grows with x, and an even share of it is left.
    left_s = np.exp(rng.normal(mu + sigma**2, sigma, (200_000, 8))) * rng.random((200_000, 8))
    assert left_s.mean() == pytest.approx(mean_s * math.exp(sigma**2) / 2, rel=0.05)
    assert left_s.mean() == pytest.approx(0.014, abs=0.0005)
    assert left_s.max(axis=1).mean() == pytest.approx(0.068, abs=0.002)
    fragments_s = np.exp(rng.normal(mu, sigma, (10_000, 8, 32))).sum(axis=2)
    round_s = view.find("tianji", "round_s")["value"]
    ends, published = np.zeros(8), [0.0, 0.0]
    for took in fragments_s:
        ends = np.maximum(ends, published[-2]) + took
        published.append(max(published[-1], ends.max()) + round_s)
    gain = (fragments_s.max(axis=1).mean() + round_s) * len(fragments_s) / published[-1]
    assert gain == pytest.approx(1.47, abs=0.01)
    quota_free = {
        metric: view.find("tianji-quota-free", f"{metric}_steps_per_s")["value"] for metric in ("consumption", "bound")
    }
    samples = view.description["environments"] * 32
    assert samples / quota_free["consumption"] - samples / quota_free["bound"] == pytest.approx(0.05, abs=0.005)


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


def test_values_of_eta_that_lie_on_each_other_have_one_text():
    tail, straggler = (learnt("cartpole-ppo-tail")[0], Ruled.all(dataset.load([STRAGGLER]))[0])
    with PAGE.applied():
        figure = frontier([tail, straggler], PAGE).figure
    texts = [[text.get_text() for text in axis.texts] for axis in figure.axes]
    assert texts == [["0", "1, 2, 4, 8"], ["0", "1", "2", "4", "8"]]
