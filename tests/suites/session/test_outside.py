"""A third-party suite and axis, from the command line to a sealed session and rows of a report."""

import json

import pandas as pd
import pytest
from commands import refusal
from guests import install

from programs.cli import run
from reports.__main__ import main as reports
from suites.__main__ import main as suites
from suites.records import store

TOY = '''
import sys
import msgspec
from suites.session.plan import block_of
from suites.session.suite import Suite, Work
from suites.statistics import summary
from suites.statistics.intervals import bootstrap_iqm

PROGRAM = """
import json, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text())
value = task["bound"] * (10 if task["system"] == "fast" else 1)
events = [{"event": "phase", "ns": 1, "name": "setup", "wall_ns": 1763900000000000000},
          {"event": "phase", "ns": 3, "name": "measured", "wall_ns": 1763900000000000000},
          {"event": "counter", "ns": 4, "name": "answers", "value": value, "role": ""}]
(folder / "events.jsonl").write_text("".join(json.dumps(event) + "\\\\n" for event in events))
"""


class Ask(msgspec.Struct):
    system: str
    bound: int


class Toy(Suite):
    name, about, profiles, testbeds = "toy", "answers by bound", {"smoke": None}, ("local",)

    def workloads(self):
        return {"questions": "Questions"}

    def systems(self):
        return {"slow": ("Slow", None), "fast": ("Fast", None)}

    def plan(self, request):
        cells = [cell for block in range(request.blocks or 1) for bound in (1, 4)
                 for cell in block_of("questions", ["slow", "fast"], None, block, options={"bound": bound, "tail": "lone"})]
        return self.session(request, {"questions": {"title": "Questions"}}, ["slow", "fast"], cells), []

    def work(self, plan, cell):
        return Work(
            task=Ask(cell.system, cell.options["bound"]),
            command=[sys.executable, "-c", PROGRAM],
            limit_s=10.0,
            manifest={"system_title": "X", "configuration": {"workload": {"title": "Questions"}}, "deviations": []},
        )

    def progress(self, work, folder):
        return 0.0, "asking"

    def lacks(self, work, events):
        return None


def rows(bundles):
    found = {}
    for b in bundles:
        value = next(event.value for event in b.events if getattr(event, "name", "") == "answers")
        found.setdefault(b.manifest.system, []).append(value)
    return [summary.row("toy", "questions", system, "answers", "answers", bootstrap_iqm(v)) for system, v in found.items()]
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "tianji_bench.suites", "toy_suite", TOY, ("Toy",))
    points = tmp_path / "toy_suite-site" / "toy_suite-1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text() + "[tianji_bench.analyses]\ntoy = toy_suite:rows\n")


@pytest.mark.long(why="whole sessions of real processes")
def test_a_suite_and_an_axis_from_outside(toy, tmp_path, capsys):
    out, file = tmp_path / "out", tmp_path / "toy.parquet"
    assert run("tianji-bench", suites, ["list"]) == 0
    assert "suite toy: answers by bound" in capsys.readouterr().out
    assert run("tianji-bench", suites, ["run", "toy", "--seeds", "2", "--out", str(out)]) == 0
    assert run("tianji-bench", suites, ["pack", str(out), "--out", str(file)]) == 0
    bundles = store.load([file]).bundles
    assert len(bundles) == 8
    names = {b.path.name for b in bundles}
    assert names >= {"questions.bound-1.tail-lone.b0.p1.slow", "questions.bound-4.tail-lone.b1.p0.slow"}
    assert all(b.manifest.phases_s == {"setup": 2e-9} for b in bundles)
    assert all(b.manifest.environment["noise_floor"] > 0 for b in bundles)
    table = pd.read_parquet(file)
    answers = table[table.event == "counter"].groupby(["system", "options.bound"]).value.mean()
    assert answers.to_dict() == {("fast", 1): 10.0, ("fast", 4): 40.0, ("slow", 1): 1.0, ("slow", 4): 4.0}
    assert set(table["options.tail"]) == {"lone"}


@pytest.mark.long(why="whole sessions of real processes")
def test_its_rows_are_in_a_report_and_values_of_an_axis_are_not_pooled(toy, tmp_path):
    out = tmp_path / "out"
    assert run("tianji-bench", suites, ["run", "toy", "--seeds", "5", "--out", str(out)]) == 0
    assert run("tianji-report", reports, ["build", str(out), "--out", str(tmp_path / "report")]) == 0
    rows = json.loads((tmp_path / "report" / "summary.json").read_text())["rows"]
    found = {(row["system"], row["options"]["bound"]): (row["value"], row["n"]) for row in rows if row["suite"] == "toy"}
    assert found == {("slow", 1): (1.0, 5), ("slow", 4): (4.0, 5), ("fast", 1): (10.0, 5), ("fast", 4): (40.0, 5)}


def test_a_suite_that_there_is_not_is_told_with_those_that_there_are(toy, tmp_path, capsys):
    said = refusal(capsys, run, "tianji-bench", suites, ["run", "toi", "--out", str(tmp_path / "out")])
    assert (
        "unknown suite 'toi'; did you mean toy? "
        "known: asynchrony, convergence, disciplines, price, scaling, staleness, toy, transmission" in said
    )
