"""Reports from recorded data: the published bundles of docs/results, and damaged copies of them."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import report_pages
from bundles import unpacked
from commands import refusal

from programs.cli import run
from reports import dataset, tables
from reports.__main__ import main
from suites.records import store

# What its fixtures make is made once.
pytestmark = pytest.mark.xdist_group("reports-build")

PPO, DQN = "cartpole-ppo-zoo", "cartpole-dqn-zoo"
RECORDED = "docs/results/smoke.parquet"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "built"
    assert run("tianji-report", main, ["build", str(unpacked(RECORDED)), "--out", str(out)]) == 0
    return out


def complaint(capsys, *arguments):
    return refusal(capsys, run, "tianji-report", main, ["build", *map(str, arguments)])


def test_summary_rows_have_every_key_and_no_nan(report):
    summary = json.loads((report / "summary.json").read_text(), parse_constant=lambda c: pytest.fail(f"{c} in summary.json"))
    scope = ["suite", "workload", "system", "baseline", "division", "machine", "options", "testbed", "nodes", "scaling"]
    sizes = ["size_bytes", "explorers", "threshold_kind"]
    keys = [*scope, *sizes, "metric", "unit", "value", "ci_low", "ci_high", "n", "censored"]
    assert summary["schema"] == dataset.SCHEMA
    assert len(summary["rows"]) > 30
    for row in summary["rows"]:
        assert list(row) == keys
        assert row["n"] >= 0
        assert (row["machine"], row["options"]) == ("2 cores of AMD EPYC", None)
        if row["n"] < 5:
            assert row["ci_low"] is row["ci_high"] is None


def test_time_to_threshold_is_what_the_events_say(report):
    """Recomputed from the raw lines, without the project's own code."""
    rows = json.loads((report / "summary.json").read_text())["rows"]
    for system in ("tianji", "sync", "rllib"):
        times = []
        for path in sorted(unpacked(RECORDED).glob(f"{PPO}.*.{system}")):
            events = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
            start = next(e["ns"] for e in events if e["event"] == "first_step")
            episodes = sorted((e["ns"], e["return"]) for e in events if e["event"] == "episode")
            for i in range(100, len(episodes) + 1):
                if sum(r for _, r in episodes[i - 100 : i]) / 100 >= 450:
                    times.append((episodes[i - 1][0] - start) / 1e9)
                    break
        scalar = (PPO, system, "time_to_threshold_s", "training")
        (row,) = [r for r in rows if (r["workload"], r["system"], r["metric"], r["threshold_kind"]) == scalar]
        assert len(times) == row["n"] - row["censored"] > 0
        assert row["value"] == pytest.approx(sum(times) / len(times))


def test_engineering_times_placement_is_the_whole(report):
    rows = json.loads((report / "summary.json").read_text())["rows"]
    ratio = {
        (r["system"], r["baseline"]): r["value"]
        for r in rows
        if (r["workload"], r["metric"], r["threshold_kind"]) == (PPO, "time_to_threshold_ratio", "evaluated")
    }
    whole = ratio["tianji", "rllib"]
    assert whole == pytest.approx(ratio["sync", "rllib"] * ratio["tianji", "sync"])


def test_ratios_of_core_seconds_are_what_the_events_say(report):
    """Recomputed from the raw lines: processor time between the first step and the training threshold, RLlib's over ours."""
    rows = json.loads((report / "summary.json").read_text())["rows"]

    def used(path):
        events = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
        start = next(e["ns"] for e in events if e["event"] == "first_step")
        episodes = sorted((e["ns"], e["return"]) for e in events if e["event"] == "episode")
        ends = (episodes[i - 1][0] for i in range(100, len(episodes) + 1) if sum(r for _, r in episodes[i - 100 : i]) >= 45_000)
        usage = sorted((e["ns"], e["cpu_s"]) for e in events if e["event"] == "usage")
        first, last = np.interp([start, next(ends)], *zip(*usage, strict=True))
        return last - first

    blocks = [sorted(unpacked(RECORDED).glob(f"{PPO}.*.{system}")) for system in ("rllib", "tianji")]
    ratios = [used(theirs) / used(ours) for theirs, ours in zip(*blocks, strict=True)]
    (row,) = [
        r
        for r in rows
        if (r["workload"], r["system"], r["baseline"], r["metric"], r["threshold_kind"])
        == (PPO, "tianji", "rllib", "core_seconds_to_threshold_ratio", "training")
    ]
    assert row["value"] == pytest.approx(np.exp(np.mean(np.log(ratios))))


def test_pages_hold_everything_and_refer_to_files_of_the_report_alone(report):
    page = report_pages.read(report)
    assert report_pages.broken(report) == []
    assert report_pages.twice(report) == []
    assert "//" not in "".join(re.findall(r'<script src="([^"]+)"', page)), "from files beside the page"
    for text in (
        "RLlib",
        "XingTian-style",
        "Stable-Baselines3",
        "The same algorithm?",
        "Deviations",
        "AMD",
        "Fewer than five blocks",
    ):
        assert text in page, text
    assert (report / "index.html").stat().st_size < 300_000


def test_every_page_has_a_table_of_its_own_workload_alone(report):
    for workload in (PPO, DQN):
        table = pd.read_csv(report / "tables" / f"{workload}-training.csv")
        assert {"TianJi", "RLlib", "Stable-Baselines3", "XingTian-style"} <= set(table["System"])
        page = (report / "pages" / f"{workload}.html").read_text()
        assert f"Workload {workload} of the suite convergence" in page
        other = PPO if workload == DQN else DQN
        assert other not in page.replace("pages/", "").replace("smoke", ""), "figures of this workload alone"
        assert "--first-seed" in page


def test_building_twice_gives_the_same_bytes(report, tmp_path):
    assert run("tianji-report", main, ["build", str(unpacked(RECORDED)), "--out", str(tmp_path / "again")]) == 0
    for path in sorted(p for p in report.rglob("*") if p.suffix in (".json", ".csv", ".js", ".html")):
        assert path.read_bytes() == (tmp_path / "again" / path.relative_to(report)).read_bytes(), path.name


def test_a_report_may_be_written_over_and_nothing_else(capsys, tmp_path):
    (tmp_path / "precious").write_text("kept")
    assert "not a report" in complaint(capsys, unpacked(RECORDED), "--out", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


def test_a_damaged_bundle_is_named(capsys, tmp_path):
    shutil.copytree(unpacked(RECORDED), tmp_path / "copy")
    victim = sorted((tmp_path / "copy").iterdir())[0]
    with (victim / "events.jsonl").open("a") as file:
        file.write('{"event": "nonsense"}\n')
    said = complaint(capsys, tmp_path / "copy", "--out", tmp_path / "out")
    assert victim.name in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_folder_without_bundles_is_refused(capsys, tmp_path, name):
    (tmp_path / "empty").mkdir()
    assert "python -m suites run" in complaint(capsys, tmp_path / name, "--out", tmp_path / "out")


def test_failed_and_censored_runs_are_shown(tmp_path, capsys):
    """One run failed, another never got there: both stay in the count, and the page says so."""
    shutil.copytree(unpacked(RECORDED), tmp_path / "copy")
    failed, censored = sorted((tmp_path / "copy").glob(f"{PPO}.*.tianji"))
    manifest = json.loads((failed / "bundle.json").read_text())
    (failed / "bundle.json").write_text(json.dumps(manifest | {"status": "failed", "error": "exit status 1\nout of <luck>"}))
    lines = (censored / "events.jsonl").read_text().splitlines()
    weak = [re.sub(r'"return":[\d.]+', '"return":9.0', line) for line in lines]
    weak = [re.sub(r'"returns":\[[^]]*\]', '"returns":[9.0]', line) for line in weak]
    (censored / "events.jsonl").write_text("\n".join(weak) + "\n")
    out = tmp_path / "out"
    assert run("tianji-report", main, ["build", str(tmp_path / "copy"), "--out", str(out)]) == 0
    assert "out of <luck>" in capsys.readouterr().out
    assert "out of &lt;luck&gt;" in (out / "how.html").read_text()
    rows = json.loads((out / "summary.json").read_text())["rows"]
    for kind in ("training", "evaluated"):
        scope = (PPO, "tianji", kind, None)
        of_kind = {r["metric"]: r for r in rows if (r["workload"], r["system"], r["threshold_kind"], r["baseline"]) == scope}
        time = of_kind["time_to_threshold_s"]
        assert (time["value"], time["n"], time["censored"]) == (None, 1, 1)
        assert of_kind["success_rate"]["value"] == 0
        assert of_kind["expected_running_time_s"]["value"] is None
        assert of_kind["restricted_mean_time_s"]["value"] > 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.4764, "0.476"), (3.0, "3.00"), (34816.0, "34,816"), (0.00001234, "0.000012"), (99.96, "100.")],
)
def test_numbers_have_three_digits(value, text):
    assert tables.number(value) == text


def test_recorded_bundles_are_derived_and_say_nothing_of_the_machine_s_owner():
    for manifest in (b.manifest for b in store.load([unpacked(RECORDED)]).bundles):
        assert manifest.derived_from
        assert manifest.environment["git_dirty"] is False
        assert "/" not in json.dumps(manifest.environment)
