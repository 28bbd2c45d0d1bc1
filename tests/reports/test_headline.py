"""The first screen says what the rows say: medians, ranges, losses."""

from pathlib import Path

import pytest

from reports import dataset, readme
from reports.convergence.view import Trained
from reports.headline import headline

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "convergence"
pytestmark = pytest.mark.xdist_group("reports-headline")


@pytest.fixture(scope="module")
def data():
    return dataset.load([REFERENCE / f"{name}.parquet" for name in ("cartpole-ppo-zoo", "lunarlander-ppo")])


def exact(data, ours, peer):
    rows = [
        data.table.one(
            suite="convergence", workload=view.workload, system=ours, baseline=peer, metric="time_to_threshold_ratio",
            threshold_kind="evaluated",
        )
        for view in Trained.all(data)
    ]  # fmt: skip
    return sorted(row["value"] for row in rows)


def test_ratios_are_those_of_the_table(data):
    found = headline(data)
    (ppo,) = found.algorithms
    assert ppo.name == "PPO"
    assert [one.line.title for one in ppo.others] == ["RLlib", "Stable-Baselines3"]
    for one, peer in zip(ppo.others, ("rllib", "sb3"), strict=True):
        assert sorted(point.ends[0] for point in one.line.points) == pytest.approx(exact(data, "tianji", peer))
        assert one.shown
        assert one.count("faster") == 2
    assert not any(one.shown for one in ppo.same)
    code = exact(data, "sync-one", "rllib") + exact(data, "sync-one", "sb3")
    assert found.engineering == pytest.approx(sorted(code))


def test_a_loss_is_told_with_its_interval(data):
    (lost,) = headline(data).lost
    assert (lost.title, lost.workload) == ("synchronous, one actor (same code)", "cartpole-ppo-zoo")
    text = readme.front(data, "docs/report")
    assert "| *0.907x [0.860, 0.956]* |" in text
    assert "against synchronous, one actor (same code) it is slower on cartpole-ppo-zoo, faster on lunarlander-ppo" in text
    assert "**PPO**: TianJi wins over RLlib (8.8x and 8.9x)" in text


def test_targets_that_were_missed_are_told():
    data = dataset.load([REFERENCE / "lunarlander-dqn.parquet"])
    (missed,) = headline(data).missed
    assert (missed.view.name, missed.kind) == ("lunarlander-dqn", "evaluated")
    assert missed.ours == ("TianJi", 2, 5)
    assert ("RLlib", 0, 5) in missed.others
    assert "Runs that reached the evaluated target of lunarlander-dqn: TianJi 2 of 5; " in readme.front(data, "docs/report")


def test_a_training_return_is_told_where_another_system_reached_it_more_often():
    data = dataset.load([REFERENCE / "lunarlander-ppo-sbx.parquet"])
    (missed,) = headline(data).missed
    assert (missed.kind, missed.ours, missed.others) == ("training", ("TianJi", 1, 5), [("SBX", 5, 5)])
    earlier = dataset.load([REFERENCE / "lunarlander-ppo.parquet"])
    assert not headline(earlier).missed, "TianJi missed it in two runs of five, and no other system in fewer"


def test_what_was_not_measured_is_not_spoken_of(data):
    found = headline(data)
    assert (found.relaxing, found.nodes, found.slower) == ([], [], [])
    text = readme.front(data, "docs/report")
    assert "Waiting less" not in text
    assert "misses targets" not in text
    assert "messages faster" not in text
