"""Who is faster at a glance: a state for each pair, and how many of them there are."""

import pytest
from bundles import unpacked

from reports import bounds, dataset, page
from reports.convergence.standings import Line, Standing, Standings, standings, state_of

WORKLOAD = "lunarlander-dqn"
REFERENCE = "results/reference/convergence/lunarlander-dqn.parquet"


def told(value, low=None, high=None, bound="", n=5):
    return bounds.Told({"value": value, "ci_low": low, "ci_high": high, "n": n, "censored": 5 - n}, bound)


def cell(*, evaluated, training):
    return [
        Standing("evaluated", evaluated, state_of(evaluated)),
        Standing("training", training, state_of(training)),
    ]


@pytest.mark.parametrize(
    ("one", "state"),
    [
        (told(1.5, 1.2, 1.9), "faster"),
        (told(0.9, 0.8, 0.99), "slower"),
        (told(1.1, 1.0, 1.2), "open"),
        (told(0.9, 0.8, 1.0), "open"),
        (told(9.0, n=4), "open"),
        (told(9.0, bound="at_least"), "bound"),
        (bounds.Told(None, neither=True), "open"),
        (bounds.Told(None), "open"),
    ],
)
def test_only_a_whole_interval_on_one_side_of_1_shows_who_is_faster(one, state):
    assert state_of(one) == state


def test_a_sentence_counts_workloads_and_has_the_least_and_the_greatest_ratio():
    cells = [
        cell(evaluated=told(8.81, 4.62, 16.8), training=told(10.1, 8.2, 12.5)),
        cell(evaluated=told(0.907, 0.86, 0.956), training=told(3.29, bound="at_least")),
        cell(evaluated=told(1.64, 1.35, 1.99), training=told(1.0, 0.8, 1.2)),
        cell(evaluated=told(5.0, 3.35, 7.72), training=told(1.47, n=3)),
    ]
    (said,) = Standings(["a", "b", "c", "d"], ["5"] * 4, [Line("RLlib", cells)]).sentences
    assert said == (
        "TianJi against RLlib, evaluated return: faster on 3 of 4 workloads (1.64x to 8.81x), slower on 1 (0.907x); "
        "training return: faster on 1 of 4 workloads (10.1x), only a bound on 1, open on 2."
    )
    (said,) = Standings(["a"], ["5"], [Line("RLlib", cells[:1])]).sentences
    assert said.startswith("TianJi against RLlib, evaluated return: faster on 1 of 1 workload (8.81x); training")


def test_where_each_side_missed_a_return_that_the_other_reached_the_mean_of_all_blocks_is_said():
    mean = {"value": 1.44, "ci_low": 1.33, "ci_high": 1.55, "n": 30, "censored": 0}
    neither = bounds.Told(None, neither=True, mean=mean)
    (said,) = Standings(["a"], ["30"], [Line("SBX", [[Standing("training", neither, state_of(neither))]])]).sentences
    assert said == "TianJi against SBX, training return: faster on 1 of 1 workload (1.44x)."


def test_the_matrix_of_recorded_runs_says_what_the_tables_say():
    data = dataset.load(sorted(unpacked(REFERENCE).glob(f"{WORKLOAD}.*")))
    found = standings(data)
    assert (found.workloads, found.blocks) == ([WORKLOAD], ["5"])
    cells = {line.peer: [(v.kind, v.told.words, v.state) for v in line.cells[0]] for line in found.lines}
    assert list(cells) == ["synchronous (same code)", "XingTian-style", "RLlib", "Stable-Baselines3"]
    assert cells["synchronous (same code)"] == [
        ("evaluated", "ERT 0.549x, restricted mean 1.02x [0.961, 1.12]; < 1.04x (4 of 5)", "bound"),
        ("training", "1.35x [1.21, 1.51]", "faster"),
    ]
    kind, words, state = cells["RLlib"][1]
    assert (kind, state) == ("training", "bound")
    assert words.startswith("restricted mean ")
    assert words.endswith("; > 3.29x")


def test_a_system_alone_is_faster_than_nobody(tmp_path):
    data = dataset.load(sorted(unpacked(REFERENCE).glob(f"{WORKLOAD}.*.tianji")))
    found = standings(data)
    assert found == Standings([], [], [])
    assert found.sentences == []
    (tmp_path / "figures").mkdir()
    assert "No two systems can be compared" in page.write(data, {}, [], tmp_path).read_text()


def test_a_machine_stands_once_with_all_revisions_and_the_range_of_its_loads(tmp_path):
    data = dataset.load(sorted(unpacked(REFERENCE).glob(f"{WORKLOAD}.*.tianji")))
    for at, one in enumerate(data.bundles):
        one.manifest.environment.update(git_commit=f"revision{at % 2}", git_dirty=at == 1, load_1min_at_start=1.0 + at)
    (tmp_path / "figures").mkdir()
    text = page.write(data, {}, [], tmp_path).with_name("how.html").read_text()
    environment = text[text.index('id="environment"') :]
    assert environment.count("<dl>") == 1
    assert "<dt>git commit</dt><dd>revision0, revision1 with changes, revision1</dd>" in environment
    assert "<dt>load 1min at start</dt><dd>1.0 to 5.0</dd>" in environment
