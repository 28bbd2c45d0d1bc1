"""The commands of every nox session, of README and of docs/index run, each in one smallest cell, so that none is dead unseen.

No environment is made, and nothing is downloaded. What needs more than that is skipped by name, with the reason.
"""

import ast
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import scaling_bundles
from pages import ROOT, blocks
from tiny import tiny_workload

pytestmark = pytest.mark.long(why="whole sessions of nox, in a checkout of their own")
LIMIT_S = 100
BY_CI = ("tests", "lint", "readme")
"""Sessions that `.ci/run` runs as they stand."""
SETS_UP = re.compile(r"python3? -m venv|(\S*/)?pip install|\. ")
"""Commands that make an environment."""


def sessions():
    tree = ast.parse((ROOT / "noxfile.py").read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]


def usual():
    """By session, the arguments with which it runs suites if it gets none."""
    calls = (node for node in ast.walk(ast.parse((ROOT / "noxfile.py").read_text())) if isinstance(node, ast.Call))
    measured = (call.args for call in calls if getattr(call.func, "id", "") == "measure")
    return {name.value: ast.literal_eval(arguments) for _, name, arguments in measured}


@pytest.fixture
def checkout(tmp_path):
    """A folder that looks like this checkout, with results of its own, and this environment's commands on the path."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in ("noxfile.py", "results", ".nox", ".bench"):
            (folder / entry.name).symlink_to(entry)
    # nox works in the folder of its file, wherever a link leads.
    shutil.copy(ROOT / "noxfile.py", folder)
    (folder / "cartpole-ppo-tiny.toml").write_text(tiny_workload())
    return folder


def run(folder, *command):
    """Run a command as a user would, in a folder. It must end well."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def nox(folder, session, *arguments):
    command = [sys.executable, "-m", "nox", "--no-venv", "--no-install", "-s", session]
    return run(folder, *command, *(["--", *arguments] if arguments else []))


def test_bench(checkout):
    said = nox(
        checkout,
        "bench",
        "convergence",
        "--profile",
        "smoke",
        "--systems",
        "tianji",
        "--workloads",
        "cartpole-ppo-tiny.toml",
        "--seeds",
        "1",
        "--once",
    )
    assert "cartpole-ppo-tiny" in said
    assert (checkout / "results" / "bench-001" / "report" / "index.html").exists()


def test_scaling(checkout):
    """Copies were dead for four days. Emulated nodes need root, and processes of this host do not."""
    chosen = ["--profile", "smoke", "--testbed", "local", "--systems", "tianji-copies", "--nodes", "2"]
    nox(checkout, "scaling", "scaling", *chosen, "--workloads", "dqn-cpu-weak")
    assert "dqn-cpu-weak" in (checkout / "results" / "scaling-001" / "report" / "summary.json").read_text()


@pytest.mark.parametrize("name", usual())
def test_what_a_session_measures_if_it_gets_no_arguments_can_be_planned(name, tmp_path):
    arguments = usual()[name]
    if "netns" in arguments and os.geteuid():
        pytest.skip(f"nox -s {name}: emulated nodes need root")
    run(tmp_path, "tianji-bench", "run", *arguments, "--out", str(tmp_path / "out"), "--dry-run")


def test_paper(checkout):
    scaling_bundles.session(checkout / "made", systems=("tianji", "xingtian"), counts=(1, 8), blocks=1)
    nox(checkout, "paper", "made")
    assert list((checkout / "results" / "paper-001" / "figures").rglob("*.pdf"))
    assert (checkout / "results" / "paper-001" / "report" / "index.html").exists()


def test_regression(checkout):
    """As if the other revision, which is this one, had been built before."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout[:12]
    built = checkout / ".nox" / f"revision-{head}"
    (built / "env" / "bin").mkdir(parents=True)
    python = built / "env" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    (built / "tree").symlink_to(ROOT)
    (built / "built").touch()
    said = nox(checkout, "regression", "--base", "HEAD", "--parts", "returns-ppo", "--most", "4", "--out", "compared")
    assert "returns-ppo" in said
    assert (checkout / "compared" / "regression.json").exists()


def test_conformance(checkout):
    nox(checkout, "conformance", "sync-one")


def test_micro(checkout):
    nox(checkout, "micro", "-k", "test_encode", "--benchmark-disable", "-p", "no:xdist")
    # What it runs besides, if it gets no arguments.
    assert "to 8 readers" in run(ROOT, sys.executable, "benchmarks/channel.py", "--rounds", "1")
    quick = ["--blocks", "1", "--seconds", "0.2", "--warmup", "0.1", "--workloads", "cartpole-ppo-zoo"]
    assert "cartpole-ppo-zoo" in run(ROOT, sys.executable, "-m", "benchmarks.efficiency", *quick)


def test_docs(checkout):
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("nox -s docs: mkdocs is in an environment of its own")
    nox(checkout, "docs")


def test_environment(checkout):
    """It downloads packages. What it refuses names what it would make."""
    with pytest.raises(AssertionError, match="name one environment after"):
        nox(checkout, "environment")


def test_every_session_is_run_here_or_by_ci():
    here = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    script = (ROOT / ".ci" / "run").read_text()
    assert all(f"-s {name}" in script for name in BY_CI if name != "tests")
    assert set(sessions()) == (here & set(sessions())) | set(BY_CI)


def commands(page):
    """Commands of a page's shell blocks, in order."""
    for block in blocks((ROOT / page).read_text()):
        if block.kind == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                yield from (shlex.join(words) for part in line.split("&&") if (words := shlex.split(part, comments=True)))


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_commands_of_the_first_pages(page, tmp_path):
    ran = 0
    for command in commands(page):
        if SETS_UP.match(command):
            continue
        program, *rest = shlex.split(command)
        if program.endswith("nox"):
            assert rest[:1] == ["-s"]
            assert rest[1] in sessions()
            continue
        # A user waits for the goal; the smallest run is a few rounds.
        run(tmp_path, program, *rest, *(["--stop-steps", "4096"] if rest[:1] == ["train"] else []))
        ran += 1
    assert ran, "each page has a command that shows that it works"
