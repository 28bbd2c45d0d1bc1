"""The scaling part of a report, from made-up sessions whose every number is known."""

import csv
import dataclasses
import json

import pytest
import report_pages
import scaling_bundles as made
from scaling_bundles import LINK, Setting
from scipy import stats

from programs.cli import run
from reports import dataset
from reports.__main__ import main
from reports.nodes import Scaled

# What its fixtures make is made once.
pytestmark = pytest.mark.xdist_group("reports-scaling")

SYSTEMS = ("tianji", "xingtian", "rllib", "tianji-copies", "xingtian-copies")
WEAK = "cartpole-ppo-nodes (weak)"


def build(folder, out):
    assert run("tianji-report", main, ["build", str(folder), "--out", str(out)]) == 0
    text = (out / "summary.json").read_text()
    rows = json.loads(text, parse_constant=lambda c: pytest.fail(f"{c} in summary.json"))["rows"]
    return rows, report_pages.read(out)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaling")
    made.session(folder / "in", systems=SYSTEMS, counts=(1, 2, 4, 6, 8))
    made.session(folder / "in", dataclasses.replace(LINK, payload_factor=700), systems=("tianji",), counts=(1, 2), blocks=1)
    rows, page = build(folder / "in", folder / "out")
    return folder / "out", rows, page


def test_rows_have_the_schema_of_all_suites(report):
    _, rows, _ = report
    keys = ["suite", "workload", "system", "baseline", "division", "machine", "options", "testbed", "nodes", "scaling"]
    keys += ["size_bytes", "explorers", "threshold_kind", "metric", "unit", "value", "ci_low", "ci_high", "n", "censored"]
    for row in rows:
        assert list(row) == keys
        assert (row["suite"], row["testbed"]) == ("scaling", "netns")
        assert (row["nodes"] is None) == row["metric"].startswith("usl_")
        if row["n"] < 5:
            assert row["ci_low"] is row["ci_high"] is None


def test_the_table_the_diagram_and_series_are_there(report):
    out, _, _ = report
    with (out / "tables" / "nodes.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {line["Workload"].partition(" ")[0] for line in lines} == {"cartpole-ppo-nodes", made.LINK.workload}
    text = (out / "charts" / "nodes.js").read_text()
    panels = [panel for group in json.loads(text[len("charts(") : -3]) for panel in group["panels"]]
    assert next(panel["title"] for panel in panels) == WEAK
    assert {one["name"] for one in panels[0]["curves"]} >= {"TianJi", "XingTian-style", "RLlib", "fitted law"}
    series = {path.stem for path in (out / "series").iterdir()}
    assert {f"scaling-{name}" for name in ("points", "curves", "nodes", "checks", "laws", "crossings")} <= series
    with (out / "series" / "scaling-points.csv").open() as file:
        assert sum(line["workload"] == "cartpole-ppo-nodes" for line in csv.DictReader(file)) == len(SYSTEMS) * 5 * 5


def test_the_speed_up_on_the_page_is_what_went_in(report):
    out, _, page = report
    with (out / "tables" / "nodes.csv").open() as file:
        own = [
            line for line in csv.DictReader(file) if (line["Workload"], line["System"], line["Nodes"]) == (WEAK, "TianJi", "8")
        ]
    (line,) = own
    eight, one = ([made.rate("tianji", nodes, block) for block in range(5)] for nodes in (8, 1))
    expected = stats.gmean([many / single for many, single in zip(eight, one, strict=True)])
    assert float(line["Gain"].split("x")[0]) == pytest.approx(expected, abs=0.005)
    assert line["Gain"].split(" [")[0] in page


def test_the_page_says_what_nodes_are(report):
    _, _, page = report
    for text in ("Nodes are emulated", "do not communicate", "Universal Scalability Law", "arXiv:0808.1431"):
        assert text in page, text
    assert "/tmp" not in page


def test_deviations_are_told_once_for_all_systems_and_numbers_of_nodes(tmp_path):
    made.session(tmp_path / "in", systems=("tianji", "xingtian"), counts=(1, 2, 4), blocks=1)
    data = dataset.load([tmp_path / "in"])
    for m in (b.manifest for b in data.bundles):
        own = [f"{m.nodes} explorers."] if m.system == "xingtian" else []
        m.deviations[:] = [f"{m.nodes} nodes are emulated.", "Links are slow.", *own]
    (scaled,) = Scaled.all(data)
    assert scaled.deviations() == {
        "All systems": ["4 nodes are emulated.", "Links are slow."],
        "TianJi": [],
        "XingTian-style": ["4 explorers."],
    }, "of lines that differ by numbers alone, that of the most nodes"
    bundles = [b for b in data.bundles if b.manifest.system == "tianji"]
    rows = data.table.where(system="tianji")
    (scaled,) = Scaled.all(dataclasses.replace(data, bundles=bundles, table=rows))
    (alone,) = scaled.deviations().items()
    assert (alone[0], len(alone[1])) == ("TianJi", 2)


def test_a_smoke_session_with_one_block_two_counts_and_no_copies(tmp_path):
    made.session(tmp_path / "in", systems=("tianji", "xingtian"), counts=(1, 8), blocks=1)
    rows, page = build(tmp_path / "in", tmp_path / "out")
    assert {row["value"] for row in rows if row["metric"] == "usl_contention"} == {None}
    assert "a fit needs 5 numbers of nodes; there are 2" in (tmp_path / "out" / "series" / "scaling-laws.csv").read_text()
    assert "Fewer than five blocks" in page
    assert "fitted law" not in (tmp_path / "out" / "charts" / "nodes.js").read_text()


def test_one_number_of_nodes_alone_has_a_throughput_and_no_speed_up(tmp_path):
    made.session(tmp_path / "in", Setting(scaling="strong", trains=False), systems=("tianji",), counts=(8,), blocks=1)
    _, page = build(tmp_path / "in", tmp_path / "out")
    assert "Throughput by number of nodes" in page
    assert "Gain</th>" not in page


def test_failed_runs_and_such_as_end_too_soon_are_shown_with_their_reason(tmp_path, capsys):
    made.session(tmp_path / "in", Setting(trains=False), systems=("tianji",), counts=(1, 2), blocks=1)
    made.write(tmp_path / "in", "rllib", 8, 0, Setting(), status="failed", error="exit status 1\nout of <luck>")
    made.write(tmp_path / "in", "xingtian", 8, 0, Setting(measured_s=2.3, trains=False))
    rows, page = build(tmp_path / "in", tmp_path / "out")
    assert {row["system"] for row in rows} == {"tianji"}
    assert "cartpole-ppo-nodes on 8 nodes, weak scaling, block 0: RLlib" in page
    assert "out of &lt;luck&gt;" in page
    assert "and 2x is needed" in page
    said = " ".join(capsys.readouterr().out.split())
    assert "scaling: 2 of 4 runs failed or say nothing; the first is cartpole-ppo-nodes, block 0, rllib: out of <luck>" in said


def test_a_session_of_which_nothing_can_be_used_still_has_a_page(tmp_path):
    made.write(tmp_path / "in", "tianji", 2, 0, Setting(measured_s=1.0, trains=False))
    rows, page = build(tmp_path / "in", tmp_path / "out")
    assert rows == []
    assert "Runs that failed" in page


def test_a_bar_in_a_systems_name_does_not_break_tables(tmp_path):
    folder = made.session(tmp_path / "in", systems=("tianji",), counts=(1, 2), blocks=1)
    for path in sorted(path.parent for path in folder.rglob("bundle.json")):
        made.edit(path, system_title="TianJi | mine")
    (scaled,) = Scaled.all(dataset.load([folder]))
    (table,) = scaled.tables
    assert set(table.frame["System"]) == {"TianJi / mine"}
