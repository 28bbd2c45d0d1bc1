"""The first screen says what the runs say: verdicts, engineering, missed targets."""

from pathlib import Path

import pytest

from reports import dataset, front, readme
from reports.front import headline
from reports.training import Trained
from reports.verdict import verdicts

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "convergence"
pytestmark = pytest.mark.xdist_group("reports-headline")


@pytest.fixture(scope="module")
def data():
    return dataset.load([REFERENCE / f"{name}.parquet" for name in ("cartpole-ppo-zoo", "lunarlander-ppo")])


def exact(data, ours, peer, kind="training"):
    rows = [
        data.table.one(
            suite="convergence", workload=view.workload, system=ours, baseline=peer, metric="time_to_threshold_ratio",
            threshold_kind=kind,
        )
        for view in Trained.all(data)
    ]  # fmt: skip
    return sorted(row["value"] for row in rows if row["value"] and not row["censored"])


def test_verdicts_are_those_of_the_engine_by_question(data):
    found = headline(data)
    assert [answer.question.id for answer in found.answers] == ["ppo", "ppo-lander", "ppo-same-code"]
    assert [one for answer in found.answers for one in answer.verdicts] == verdicts(data)
    words = {(one.question.id, one.opponent): one.said for one in verdicts(data)}
    assert words["ppo", "rllib"] == "not measured: acrobot-ppo"
    assert words["ppo-lander", "sb3"] == "faster"
    code = exact(data, "sync-one", "rllib") + exact(data, "sync-one", "sb3")
    assert found.engineering == pytest.approx(sorted(code))


def test_an_estimate_of_one_session_without_misses_is_that_of_the_summary(data):
    rllib = next(one for one in verdicts(data) if (one.question.id, one.opponent) == ("ppo", "rllib"))
    keys = {"system": "tianji", "baseline": "rllib", "metric": "time_to_threshold_ratio", "threshold_kind": "training"}
    row = data.table.one(workload="cartpole-ppo-zoo", **keys)
    assert row["censored"] == 0
    found = rllib.ratio.value, rllib.ratio.low, rllib.ratio.high
    assert found == pytest.approx((row["value"], row["ci_low"], row["ci_high"]))


def test_the_readme_says_what_the_engine_says_of_each_question(data):
    text = readme.block(data, [], "docs/pictures")
    for one in (one for one in verdicts(data) if one.question.id in ("ppo", "ppo-lander")):
        row = next(line for line in text.splitlines() if line.startswith((f"| {one.title} |", f"| {one.title} †")))
        told = front.said(one)
        assert told in row if one.question.id == "ppo" else f"{one.said} (" in text
    assert "no clear winner" not in text.lower()


def test_targets_that_were_missed_are_told():
    data = dataset.load([REFERENCE / "lunarlander-dqn.parquet"])
    found = headline(data).missed
    assert {(one.view.name, one.kind) for one in found} == {("lunarlander-dqn", "evaluated")}
    assert all((one.ours, one.blocks) == (3, 5) and one.theirs > 3 for one in found)
    assert "RLlib" not in {one.title for one in found}, "it reached it in no run"


def test_a_training_return_is_told_where_another_system_reached_it_more_often():
    data = dataset.load([REFERENCE / "lunarlander-ppo-sbx.parquet"])
    (missed,) = headline(data).missed
    assert missed[1:] == ("training", "SBX", 1, 5, 5)
    earlier = dataset.load([REFERENCE / "lunarlander-ppo.parquet"])
    assert not headline(earlier).missed, "TianJi missed it in two runs of five, and no other system in fewer"


def test_what_was_not_measured_is_not_spoken_of(data):
    found = headline(data)
    assert found.slower == []
    text = readme.block(data, [], "docs/pictures")
    assert "messages" not in text
    assert "waiting pay" not in text
    assert "Tuned" not in text
