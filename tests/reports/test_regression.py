"""`tianji-report compare`: what is said of two revisions, in every form, and what is refused."""

import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from bundles import unpacked
from commands import refusal
from scaling_bundles import edit, session

from programs.cli import run
from reports.__main__ import main
from reports.regression import recorded as recorded_runs
from suites.statistics import comparison
from suites.statistics.comparison import Comparison, Metric, Round
from suites.statistics.gate import Rule

ROOT = Path(__file__).parents[2]


def recorded(folder, slower=1.0, rounds=4, **more):
    """Two metrics; the head is so many times slower in one of them."""
    rng = np.random.default_rng(1)
    metrics = tuple(Metric(name, name, "things/s", "higher", {}) for name in ("channel", "hand_over[inproc]"))
    environment = {"cpu_usable": 2, "cpu_model": "a processor"}

    def pair(times):
        base = 1000 * rng.lognormal(0, 0.005)
        return base, 1000 / times * rng.lognormal(0, 0.005)

    made = Comparison(
        environments={"base": environment, "head": environment},
        metrics=metrics,
        rounds=tuple(
            Round(n, "base", {"channel": [pair(slower)], "hand_over[inproc]": [pair(1.0)]}, 2.0) for n in range(rounds)
        ),
        **more,
    )
    folder.mkdir()
    comparison.write(made, folder)
    return folder


def compare(*arguments):
    return run("tianji-report", main, ["compare", *map(str, arguments)])


def complaint(capsys, *arguments):
    return refusal(capsys, run, "tianji-report", main, ["compare", *map(str, arguments)])


def test_what_is_worse_fails_and_says_so_in_every_form(tmp_path, capsys):
    folder = recorded(tmp_path / "c", slower=1.15, left_out={"flight": "the base does not have it"})
    files = {kind: tmp_path / f"told.{kind}" for kind in ("json", "junit", "markdown")}
    assert compare(folder, *(f"--{kind}={file}" for kind, file in files.items())) == 1
    out = capsys.readouterr().out
    assert "worse: channel" in out
    assert "not compared: flight: the base does not have it" in out
    assert "hand_over[inproc]" in out, "brackets are no markup"
    told = json.loads(files["json"].read_text())
    assert (told["verdict"], told["rounds"], told["seconds"]) == ("worse", 4, 8.0)
    lines = {line["metric"]: line for line in told["lines"]}
    assert lines["channel"]["verdict"] == "worse"
    assert 0.85 < lines["channel"]["ci_low"] < lines["channel"]["ratio"] < lines["channel"]["ci_high"] < 0.89
    assert lines["hand_over[inproc]"]["verdict"] == "equivalent"
    suite = ET.fromstring(files["junit"].read_text())
    assert {key: suite.get(key) for key in ("tests", "failures", "skipped")} == {"tests": "3", "failures": "1", "skipped": "1"}
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["channel"]
    text = files["markdown"].read_text()
    assert text.startswith("### ❌ Regression check: worse: `channel`")
    assert re.search(r"\| `channel` \| WORSE \| 1\.1\dx slower \| 0\.8", text)
    assert re.search(r"Geometric mean over 2 metrics: 1\.0\dx slower\.", text)
    assert "2 cores of a processor" in text


def test_the_same_passes(tmp_path, capsys):
    assert compare(recorded(tmp_path / "c"), f"--markdown={tmp_path / 'm'}") == 0
    assert "nothing is worse by 5% (4 rounds)" in capsys.readouterr().out
    assert (tmp_path / "m").read_text().startswith("### ✅")


def test_what_was_interrupted_is_judged_as_far_as_it_came(tmp_path, capsys):
    assert compare(recorded(tmp_path / "c", slower=1.3, rounds=3)) == 1
    assert compare(recorded(tmp_path / "d", rounds=5)) == 0, "at its first look, after four"
    assert "(4 rounds)" in capsys.readouterr().out
    assert "2 rounds cannot be judged" in complaint(capsys, recorded(tmp_path / "e", rounds=2))


def test_files_are_not_written_over(tmp_path, capsys):
    folder = recorded(tmp_path / "c")
    (tmp_path / "precious").write_text("kept")
    assert "exists; name a new file" in complaint(capsys, folder, "--json", tmp_path / "precious")
    assert "its folder does not exist" in complaint(capsys, folder, "--junit", tmp_path / "no" / "where")
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_comparison_has_its_own_rule(tmp_path, capsys):
    assert "says by itself" in complaint(capsys, recorded(tmp_path / "c"), "--size", "0.1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Bundles of two systems on one node and two, five blocks."""
    return session(tmp_path_factory.mktemp("runs") / "base", systems=("tianji", "xingtian"), counts=(1, 2), blocks=5)


@pytest.fixture
def head(runs, tmp_path):
    shutil.copytree(runs, tmp_path / "head")
    return tmp_path / "head"


def changed(folder: Path, pattern: str, **changes):
    found = sorted(folder.rglob(pattern))
    assert found
    for path in found:
        edit(path, **changes)


def test_two_folders_of_the_same_bundles_are_the_same(runs, head, capsys):
    assert compare(runs, head) == 0
    assert "within 5%" in capsys.readouterr().out


def test_a_run_that_fails_now_and_did_not_before_fails_the_build(runs, head, tmp_path, capsys):
    changed(head, "*.b1.*xingtian", status="failed", error="RuntimeError: out of luck")
    assert compare(runs, head, "--junit", tmp_path / "j") == 1
    assert "seed 1: RuntimeError: out of luck" in capsys.readouterr().out
    assert int(ET.parse(tmp_path / "j").getroot().get("failures")) >= 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"environment": {"cpu_model": "another"}}, "cpu_model is .* in one run, another in another"),
        ({"configuration": {"company": 99}}, "their configurations differ"),
        ({"seed": 77}, "not of the same seeds"),
        ({"schema": "tianji-bench/bundle/99"}, "tianji-bench/bundle/99"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(runs, head, capsys, changes, says):
    victim = sorted(path.parent for path in head.rglob("bundle.json"))[0]
    manifest = json.loads((victim / "bundle.json").read_text())
    for key, value in changes.items():
        manifest[key] = manifest[key] | value if isinstance(value, dict) else value
    (victim / "bundle.json").write_text(json.dumps(manifest))
    assert re.search(says, complaint(capsys, runs, head))


def test_too_few_seeds_are_refused(tmp_path, capsys):
    few = session(tmp_path / "few", systems=("tianji",), counts=(1,), blocks=2)
    assert "5 seeds are needed, there are 2" in complaint(capsys, few, few)
    assert "--looks 0: at least 1" in complaint(capsys, few, few, "--looks", "0")
    assert "size 2" in complaint(capsys, few, few, "--size", "2")


def test_what_has_no_ratio_is_named_with_its_reason(tmp_path):
    """RLlib never got there, and its returns are below nothing; one run of the synchronous system is in the base alone."""
    base, head = tmp_path / "base", tmp_path / "head"
    for path in unpacked("results/reference/convergence/lunarlander-dqn.parquet").glob("lunarlander-dqn.*"):
        if path.name.endswith(("rllib", "sync")):
            for side in (base, head):
                shutil.copytree(path, side / path.name)
    shutil.rmtree(head / "lunarlander-dqn.b0.p0.sync")
    found = recorded_runs.compare(base, head, Rule())
    why = {name.removeprefix("convergence lunarlander-dqn "): reason for name, reason in found.left_out.items()}
    assert why["rllib training_time_to_threshold_s"] == "no run reached it"
    assert why["rllib final_training_return"].startswith("not positive with seed ")
    assert why["sync, seed 0"] == "only the base has this run"
    assert why["sync production_steps_per_s"] == "it is not known with every seed"
    assert [metric.name for metric in found.metrics] == ["convergence lunarlander-dqn rllib production_steps_per_s"]


def test_a_threshold_that_neither_reached_with_one_seed_is_still_compared(tmp_path):
    """The head never gets there, the base with three seeds of five: worse; that of a seed that neither reached is a tie."""
    base, head = tmp_path / "base", tmp_path / "head"
    for path in unpacked("results/reference/convergence/lunarlander-dqn.parquet").glob("lunarlander-dqn.*.tianji"):
        for side in (base, head):
            shutil.copytree(path, side / path.name)
    for path in head.rglob("events.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for event in lines:
            if event["event"] == "evaluation":
                event["returns"] = [-100.0] * len(event["returns"])
        path.write_text("".join(json.dumps(event) + "\n" for event in lines))
    found = recorded_runs.compare(base, head, Rule())
    name = "convergence lunarlander-dqn tianji evaluated_time_to_threshold_s"
    pairs = {one.seed: one.pairs[name][0] for one in found.rounds}
    ties = [seed for seed, (mine, theirs) in pairs.items() if mine == theirs]
    assert len(ties) == 2
    assert all(theirs > mine for seed, (mine, theirs) in pairs.items() if seed not in ties)
