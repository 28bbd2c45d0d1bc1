"""The history of accepted runs: what is kept, what is refused, and when a new series begins."""

import json
import shutil
from pathlib import Path

import pytest
from commands import refusal
from msgspec.structs import replace
from scaling_bundles import edit, session

from programs.cli import run
from reports import dataset, history
from reports.__main__ import main

KEPT = "scaling ppo-cpu-weak: unique_consumption_samples_per_s, 2 nodes"


def runs(folder, commit="a" * 40, dirty=False):
    made = session(folder, systems=("tianji",), counts=(1, 2), blocks=5)
    for path in sorted(path.parent for path in Path(made).rglob("bundle.json")):
        manifest = json.loads((path / "bundle.json").read_text())
        edit(path, session=folder.name, environment=manifest["environment"] | {"git_commit": commit, "git_dirty": dirty})
    return made


def accept(capsys, made, folder):
    assert run("tianji-report", main, ["accept", str(made), "--history", str(folder)]) == 0
    capsys.readouterr()


def refused(capsys, made, folder):
    return refusal(capsys, run, "tianji-report", main, ["accept", str(made), "--history", str(folder)])


def test_a_run_is_a_line_with_tianjis_values(tmp_path, capsys):
    made = runs(tmp_path / "one")
    accept(capsys, made, tmp_path / "history")
    (entry,) = history.read(tmp_path / "history")
    assert (entry.commit, entry.sessions) == ("a" * 40, ("one",))
    assert [value.name.rpartition(": ")[2] for value in entry.values] == [
        "unique_consumption_samples_per_s, 1 nodes",
        "unique_consumption_samples_per_s, 2 nodes",
        "unique_consumption_speedup_ratio, 2 nodes",
    ]
    rows = dataset.load([made]).rows
    for value in entry.values:
        assert any(row["value"] == value.value and row["ci_low"] == value.ci_low for row in rows)


def test_the_page_draws_what_was_accepted(tmp_path, capsys):
    for name in ("one", "two"):
        accept(capsys, runs(tmp_path / name, commit=name[0] * 40), tmp_path / "history")
    out = tmp_path / "report"
    arguments = ["build", str(tmp_path / "two"), "--out", str(out), "--history", str(tmp_path / "history"), "--svg"]
    assert run("tianji-report", main, arguments) == 0
    page = (out / "index.html").read_text()
    assert "2 runs accepted" in page
    assert "is 1.00 times what it was" in page
    assert (out / "figures" / "history-runs.svg").exists()
    assert (out / "tables" / "history-runs.csv").read_text().count("\n") == 1 + 6


def test_a_workload_that_changes_begins_a_new_series(tmp_path, capsys):
    accept(capsys, runs(tmp_path / "one"), tmp_path / "history")
    made = runs(tmp_path / "two")
    for path in sorted(path.parent for path in Path(made).rglob("bundle.json")):
        configuration = json.loads((path / "bundle.json").read_text())["configuration"]
        edit(path, configuration=configuration | {"workload": configuration["workload"] | {"budget_seconds": 99.0}})
    accept(capsys, made, tmp_path / "history")
    before, after = history.read(tmp_path / "history")
    assert {value.series for value in before.values}.isdisjoint(value.series for value in after.values)
    assert history.finding([before, after])[1:] == [], "nothing to compare with"
    assert history.finding([before, replace(before, values=before.values)])[1].endswith("is 1.00 times what it was.")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda made: None, "is in the history already"),
        (lambda made: runs(made, dirty=True), "code that was not committed"),
    ],
)
def test_what_nobody_could_run_again_or_is_there_is_refused(tmp_path, capsys, spoil, says):
    made = runs(tmp_path / "one")
    accept(capsys, made, tmp_path / "history")
    before = (tmp_path / "history" / history.FILE).read_bytes()
    other = tmp_path / "other"
    shutil.copytree(made, other)
    if says.startswith("code"):
        shutil.rmtree(other)
    spoil(other)
    assert says in refused(capsys, other, tmp_path / "history")
    assert (tmp_path / "history" / history.FILE).read_bytes() == before


def test_a_damaged_or_newer_history_is_refused_in_one_line(tmp_path, capsys):
    made = runs(tmp_path / "one")
    accept(capsys, made, tmp_path / "history")
    file = tmp_path / "history" / history.FILE
    line = file.read_text()
    file.write_text(line + "{")
    assert "line 2 is damaged" in refused(capsys, made, tmp_path / "history")
    file.write_text(line.replace("history/1", "history/2"))
    assert "has schema tianji-bench/history/2" in refused(capsys, made, tmp_path / "history")
    out = ["build", str(made), "--out", str(tmp_path / "r"), "--history", str(tmp_path / "nowhere")]
    assert "there is no such folder" in refusal(capsys, run, "tianji-report", main, out)
