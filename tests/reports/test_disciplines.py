"""What the documentation says of disciplines is what the sealed session says."""

import math

import numpy as np
import past
import pytest
from elsewhere import ROOT

from reports import dataset
from reports.waiting import Ruled


@pytest.fixture(scope="module")
def view():
    (found,) = Ruled.all(dataset.load([past.session("disciplines/cartpole-ppo-straggler-again.parquet")]))
    return found


def learnt(name):
    """The view of a session."""
    (found,) = Ruled.all(dataset.load([past.session(f"disciplines/{name}.parquet")]))
    return found


@pytest.mark.long(why="a whole report is built")
def test_what_the_documentation_says_of_a_tail_is_what_its_distribution_gives():
    """Steps that are under way when a round closes, and the rule `admitted-in-order` played with drawn fragments."""
    rng = np.random.default_rng(0)
    view = learnt("cartpole-ppo-tail")
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
        (table,) = learnt(f"cartpole-ppo-{name}").tables
        frames.append(table.frame.set_index("Rule"))
    text = (ROOT / "docs" / "disciplines.md").read_text()
    _, _, *lines = text.partition("<!-- glance -->\n")[2].partition("<!-- end of glance -->")[0].splitlines()
    rows = {cells[0].replace("`", ""): cells[3:5] for line in lines for cells in [line.strip("| ").split(" | ")]}
    assert rows.pop("strict")[0] == "1"
    assert {"quota-free", "exactly-one-round", "admitted, eta = 1", "relaxed", "free", "periodic"} <= rows.keys()
    for name, (ratios, ages) in rows.items():
        assert ratios == ", ".join(frame.loc[name, "Gain"].split()[0] for frame in frames)
        assert ages == ", ".join(frame.loc[name, "Age, rounds"] for frame in frames)


def test_who_waits_is_drawn_for_actors_and_learner(view):
    (group,) = view.groups
    frontier, roles = group.panels
    assert len(frontier.curves) == len(view.shown)
    (strict,) = (one for one in frontier.curves if one.name == "strict")
    assert (strict.x, strict.y) == ([0.0], [1.0])
    shares = {(one.name, row): value for one in roles.curves for row, value in zip(one.y, one.x, strict=True)}
    assert shares["actor waits for weights", "strict: actors"] > 70
    assert shares["actor waits for weights", "relaxed: actors"] == 0
    assert shares["actor works", "relaxed: actors"] > 2 * shares["actor works", "strict: actors"]
    for row in ("strict: actors", "strict: learner", "relaxed: actors", "relaxed: learner"):
        assert sum(value for (_, of), value in shares.items() if of == row) == pytest.approx(100, abs=0.3)
