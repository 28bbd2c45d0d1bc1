"""The page about the gate: its benchmark, its commands and its snippets are what they say."""

import re
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import yaml

from gate import command
from gate.execution import Finished
from gate.metrics import Source

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text()
ACTION = yaml.safe_load((ROOT / "gate" / "action.yml").read_text())


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def parser():
    made = ArgumentParser(prog="gate", exit_on_error=False)
    command.arguments(made)
    return made


def test_the_benchmark_prints_a_metric(tmp_path):
    (script,) = blocks("python")
    out = tmp_path / "out"
    out.write_bytes(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout)
    found = Source().read("it", Finished(1.0, out), tmp_path)
    assert {name: (value.unit, value.better) for name, value in found.items()} == {"sort": ("s", "lower")}


def test_every_command_of_the_page_is_one():
    lines = [line.strip() for block in blocks("sh") for line in block.splitlines()]
    commands = [line.partition(" gate ")[2] for line in lines if re.search(r"(tianji-bench|-m) gate ", line)]
    assert len(commands) == 5
    for line in commands:
        assert parser().parse_args(shlex.split(line)).command_line


def test_the_table_has_every_option_and_its_default():
    rows = dict(re.findall(r"^\| `(--[a-z-]+)[ \w]*` \| .*? \| ([^|]*) \|$", PAGE, re.MULTILINE))
    made = parser()
    options = {action.option_strings[0]: action.default for action in made._actions if action.option_strings}
    measured = {"-h", "--time", "--pytest-benchmark"}
    assert rows.keys() == options.keys() - measured
    for name, default in rows.items():
        known = options[name]
        if name not in ("--base", "--turns"):
            assert default.strip("`") == ("none" if known is None else f"{known:g}" if isinstance(known, float) else str(known))


def test_the_snippets_of_the_page_use_what_there_is():
    workflow, gitlab = map(yaml.safe_load, blocks("yaml"))
    (job,) = workflow["jobs"].values()
    gate = job["steps"][-1]
    assert set(gate["with"]) <= set(ACTION["inputs"])
    assert job["steps"][0]["with"]["fetch-depth"] == 0
    assert job["permissions"]["pull-requests"] == "write"
    # YAML reads the key `on` as true.
    assert workflow[True] == "pull_request"
    (job,) = gitlab.values()
    script = "\n".join(job["script"])
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    (line,) = [one for one in job["script"] if " -m gate " in one]
    assert parser().parse_args(shlex.split(line.partition(" -m gate ")[2])).command_line == [".venv/bin/python", "bench.py"]
    assert job["variables"]["GIT_DEPTH"] == "0"
    assert job["artifacts"]["reports"]["junit"].endswith("/gate.xml")
