"""The GitHub Action: sound YAML, sound scripts, and a step that does what it says."""

import os
import re
import subprocess
import sys
import tomllib
from argparse import ArgumentParser
from pathlib import Path

import pytest
import yaml
from toy_repositories import git, line, made

from gate import command

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "gate" / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}


def test_every_input_is_used_and_every_use_is_an_input():
    text = "".join(str(step) for step in ACTION["runs"]["steps"])
    assert set(re.findall(r"inputs\.(\w+)", text)) == set(ACTION["inputs"])
    assert all(one["description"].endswith(".") for one in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))


def test_defaults_are_those_of_the_command():
    parser = ArgumentParser()
    command.arguments(parser)
    for name in ("head", "size", "most", "timeout", "name"):
        default = parser.get_default(name)
        assert type(default)(ACTION["inputs"][name]["default"]) == default


def test_no_input_becomes_part_of_a_script_and_scripts_are_bash():
    for name, step in STEPS.items():
        assert "${{" not in step["run"], name
        assert step["shell"] == "bash"
        subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


def test_its_requirements_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = {*project["dependencies"], *project["optional-dependencies"]["report"]}
    wanted = {text for text in (ROOT / "gate" / "requirements.txt").read_text().splitlines() if not text.startswith("#")}
    assert wanted <= known


@pytest.fixture
def runner(tmp_path):
    """Runs a step as GitHub does, with this interpreter in the place of the one that the first step installs."""
    program = tmp_path / "temporary" / "tianji-gate" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    places = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}

    def step(name, folder, **variables):
        environment = {**os.environ, **{key: str(value) for key, value in places.items()}, **variables}
        environment |= {"RUNNER_TEMP": str(tmp_path / "temporary"), "GITHUB_ACTION_PATH": str(ROOT / "gate")}
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
        done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True)
        told = {name: place.read_text() if place.exists() else "" for name, place in places.items()}
        return done, told

    return step


@pytest.mark.long(why="whole runs of real processes")
def test_the_step_measures_and_leaves_the_verdict_to_the_last_one(runner, tmp_path):
    repository = made(tmp_path / "toy", base=line(), slower=line(value=2.0))
    # Modules of the repository must not be taken for those of the gate.
    (repository / "gate").mkdir()
    (repository / "gate" / "__init__.py").write_text("raise SystemExit('not this one')")
    hostile = "gate/$(touch hacked)"
    values = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
    values |= {"base": "base", "command": "cat metrics", "most": "3", "setup": f"echo '{hostile}'"}
    variables = {f"GATE_{name.upper()}": value for name, value in values.items()}
    done, told = runner("Measure", repository, **variables)
    assert done.returncode == 0, done.stderr
    outputs = dict(one.split("=", 1) for one in told["GITHUB_OUTPUT"].splitlines())
    assert outputs["status"] == "1"
    assert told["GITHUB_STEP_SUMMARY"].startswith("### ❌ Regression check: worse: `latency`")
    assert (Path(outputs["folder"]) / "gate.xml").exists()
    assert git(repository, "status", "--porcelain") == "?? gate/"
    assert runner("Verdict", repository, GATE_STATUS=outputs["status"])[0].returncode == 1
