"""The staleness part of a report, from the committed reference bundles."""

import json
from collections import Counter

import numpy as np
import past
import pytest
from bundles import unpacked

from reports import dataset
from reports.training import Balanced

RECORDED = "results/reference/staleness"
PPO = "cartpole-ppo-zoo"


@pytest.fixture(scope="module")
def data():
    return dataset.load([unpacked(RECORDED)])


def views(data):
    return {view.workload: view for view in Balanced.all(data)}


def raw(system, folder="ppo-ablation"):
    """Events of each run, as they lie in the files."""
    for path in sorted((unpacked(RECORDED) / folder).glob(f"{PPO}.*.{system}")):
        yield [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]


def test_quantiles_are_those_of_the_raw_histograms(data):
    """Recomputed from the lines, without the project's own code: interquartile mean over runs of each run's 99th percentile."""
    for system in ("tianji-one-sided", "tianji-unbalanced"):
        values = []
        for events in raw(system):
            (counts,) = (e["counts"] for e in events if e.get("name") == "learner_insertion_lag_rounds")
            lags = np.repeat([int(v) for v in counts], list(counts.values()))
            values.append(np.quantile(np.sort(lags), 0.99, method="inverted_cdf"))
        assert len(values) == 10
        middle = np.sort(values)
        # The middle half of ten: weights 0 0 .5 1 1 1 1 .5 0 0.
        expected = (middle[2] / 2 + middle[3:7].sum() + middle[7] / 2) / 5
        row = data.table.one(suite="staleness", workload=PPO, system=system, metric="insertion_lag_p99_rounds")
        assert row["value"] == pytest.approx(expected)


def test_nothing_beyond_the_bound_was_trained_on_and_no_chunk_twice():
    for system, bound in (("tianji", 0), ("tianji-relaxed", 16), ("tianji-one-sided", 16)):
        for events in raw(system):
            ages = next(e["counts"] for e in events if e.get("name") == "learner_age_rounds")
            assert max(map(int, ages)) <= bound
            counters = {e["name"]: e["value"] for e in events if e["event"] == "counter"}
            assert sum(ages.values()) * 128 == counters["learner_steps"]
            assert counters["learner_samples_consumed"] == 20 * counters["learner_steps"]
            assert counters["learner_chunks_duplicated"] == counters["learner_chunks_lost"] == 0


def test_a_page_has_curves_and_a_line_for_each_form_of_the_balance(data):
    view = views(data)[PPO]
    (table,) = view.tables
    lines = table.frame.set_index("System")
    assert {"TianJi", "TianJi, relaxed", "TianJi, one-sided"} <= {name.partition(" (another")[0] for name in lines.index}
    assert float(lines.loc["TianJi", "Actors wait"]) > 0.2
    (curves, *_) = view.groups
    assert next(panel.title for panel in curves.panels) == "training return over seconds"
    bold = [one for one in curves.panels[0].curves if not one.faint]
    assert [one.name for one in bold] == [view.title(label) for label in view.shown]


def test_consumption_over_production_is_what_the_workload_says(data):
    for label in ("tianji", "tianji-relaxed", "tianji-as-published"):
        assert views(data)[PPO].row(label, "consumption_ratio")["value"] == pytest.approx(20, rel=0.01)


def test_with_a_replay_too_and_more_where_there_is_no_rule():
    view = views(dataset.load([past.session("reference/staleness/dqn.parquet")]))["cartpole-dqn-zoo"]
    assert view.row("tianji", "consumption_ratio")["value"] == pytest.approx(32, rel=0.01)
    assert view.row("tianji-as-published", "consumption_ratio")["value"] > 64


def test_every_run_has_its_histograms_and_they_add_up(data):
    frame = data.series["staleness"]
    arrived: Counter = Counter()
    for events in raw("tianji-relaxed"):
        arrived["chunks"] += next(e["value"] for e in events if e.get("name") == "learner_chunks_arrived")
    sessions = {json.loads((p / "bundle.json").read_text())["session"] for p in (unpacked(RECORDED) / "ppo-ablation").glob("*")}
    own = frame[
        (frame.system == "tianji-relaxed")
        & (frame.kind == "insertion_lag")
        & (frame.unit == "rounds")
        & frame.session.isin(sessions)
    ]
    assert own["chunks"].sum() == arrived["chunks"]
