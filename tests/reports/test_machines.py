"""A machine is a key: one report has several, seconds are not pooled, and ratios stand beside each other."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import report_pages
from bundles import unpacked
from scaling_bundles import edit, session
from scipy import stats

from programs.cli import run
from reports import dataset, paper, picker
from reports.__main__ import main
from reports.nodes import Scaled
from reports.training import Trained

# What its fixtures make is made once.
pytestmark = pytest.mark.xdist_group("reports-machines")

WORKLOAD = "cartpole-ppo-zoo"
OURS, OTHER = "2 cores of Intel(R) Xeon(R) Processor", "2 cores of another processor"
SLOWER = {"tianji": 2.0, "rllib": 4.0}
"""How many times as long a run of a system takes on the other machine."""


def manifest(path):
    return json.loads((path / "bundle.json").read_text())


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Runs of two systems, and the same as if another machine had taken several times as long for them."""
    folder = tmp_path_factory.mktemp("machines")
    for path in sorted(unpacked(f"results/reference/convergence/{WORKLOAD}.parquet").glob("*")):
        system = path.name.rpartition(".")[2]
        if system not in SLOWER:
            continue
        shutil.copytree(path, folder / "ours" / path.name)
        other = shutil.copytree(path, folder / "other" / path.name)
        edit(other, environment=manifest(path)["environment"] | {"cpu_model": "another processor"})
        events = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
        start = next(event["ns"] for event in events if event["event"] == "first_step")
        for event in events:
            event["ns"] = start + round(SLOWER[system] * (event["ns"] - start))
        (other / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return folder


@pytest.fixture(scope="module")
def data(source):
    return dataset.load([source])


def test_seconds_are_those_of_one_machine(data, source):
    alone = dataset.load([source / "ours"])
    assert {row["machine"] for row in data.rows} == {OURS, OTHER}
    assert data.table.where(machine=OURS).rows == alone.rows
    keys = {"metric": "time_to_threshold_s", "threshold_kind": "training"}
    for system, times in SLOWER.items():
        ours, other = (data.table.one(machine=machine, system=system, **keys) for machine in (OURS, OTHER))
        assert ours["n"] == other["n"] == 5
        assert other["value"] == pytest.approx(times * ours["value"], rel=1e-6)
    for name in ("crossings", "curves-training", "time-shares"):
        own = data.series[name][data.series[name]["machine"] == OURS].reset_index(drop=True)
        pd.testing.assert_frame_equal(own, alone.series[name].reset_index(drop=True), check_dtype=False)


def test_ratios_of_both_stand_beside_each_other(data):
    ours, other = Trained.all(data)
    assert (ours.name, other.name) == (f"{WORKLOAD} ({OURS})", f"{WORKLOAD} ({OTHER})")
    assert ours.slug != other.slug
    times = {
        view: [view.points("crossings").query(f"system == '{system}' and threshold_kind == 'training'") for system in SLOWER]
        for view in (ours, other)
    }
    for view, (tianji, rllib) in times.items():
        blocks = tianji.merge(rllib, on=["session", "block"])
        expected = stats.gmean(blocks["seconds_y"] / blocks["seconds_x"])
        assert view.fast("tianji", "rllib", "training").row["value"] == pytest.approx(expected)
    ratios = [view.fast("tianji", "rllib", "training").row["value"] for view in (ours, other)]
    assert np.divide(*ratios[::-1]) == pytest.approx(2.0)
    bars = {choice.machine: own for choice, own in picker.bars(data).items() if choice.kind == "training"}
    assert set(bars) == {OURS, OTHER}
    assert {bar.runs for own in bars.values() for bar in own} == {5}


@pytest.mark.long(why="a whole report is built")
def test_a_page_and_a_paper_name_the_machine_where_there_are_several(data, source, tmp_path):
    out = tmp_path / "report"
    assert run("tianji-report", main, ["build", str(source), "--out", str(out)]) == 0
    page = (out / "index.html").read_text()
    titles = [re.search("<h1>([^<]+)</h1>", file.read_text())[1] for file in (out / "pages").iterdir()]
    assert {title.partition("(")[2] for title in titles} == {f"{OURS})", f"{OTHER})"}
    choices = json.loads(re.search('id="costs"[^>]*>(.*?)</script>', page)[1])
    assert {one["machine"] for one in choices} == {OURS, OTHER}, "bars a machine"
    assert report_pages.broken(out) == report_pages.twice(out) == []
    assert f"20 runs on {OURS}; {OTHER}" in page
    claims = {claim["id"]: claim for claim in json.loads((out / "claims.json").read_text())["claims"]}
    of_rllib = claims["tianji-onpolicy-rllib"]["findings"]
    assert [one["machine"] for one in of_rllib] == [OURS, OTHER] * 2, "a line a reading and machine"
    (plate,) = (plate for plate in paper.plates(data) if plate.name == "costs")
    assert [panel.title for panel in plate.panels] == [f"{WORKLOAD} ({OURS})", f"{WORKLOAD} ({OTHER})"], "a panel a machine"
    alone = tmp_path / "alone"
    assert run("tianji-report", main, ["build", str(source / "ours"), "--out", str(alone)]) == 0
    assert f"({OURS})" not in report_pages.read(alone), "one machine goes without saying"


def test_a_setting_of_nodes_has_a_section_a_machine(tmp_path):
    for name, model in (("a", "one processor"), ("b", "another processor")):
        made = session(tmp_path / name, systems=("tianji",), counts=(1, 2), blocks=5)
        for path in sorted(path.parent for path in made.rglob("bundle.json")):
            edit(path, environment=manifest(path)["environment"] | {"cpu_model": model})
    views = Scaled.all(dataset.load([tmp_path]))
    assert [view.key.machine.partition(" of ")[2] for view in views] == ["another processor", "one processor"]
    counts = [{row["n"] for row in view.table.where(metric="unique_consumption_samples_per_s").rows} for view in views]
    assert counts == [{5}, {5}], "not ten"
    assert all(len(view.usable) == 10 for view in views)


def test_values_of_a_further_axis_are_apart_too(tmp_path):
    for bound in (1, 4):
        made = session(tmp_path / str(bound), systems=("tianji",), counts=(1, 2), blocks=5)
        for path in sorted(path.parent for path in made.rglob("bundle.json")):
            edit(path, options={"bound": bound})
    data = dataset.load([tmp_path])
    assert {row["options"]["bound"] for row in data.rows} == {1, 4}
    views = Scaled.all(data)
    assert [view.apart for view in views] == ["bound = 1", "bound = 4"]
    assert {row["n"] for view in views for row in view.table.where(metric="unique_consumption_samples_per_s").rows} == {5}
    assert len({view.slug for view in views}) == 2
