"""A report needs nothing of what measures: neither TianJi nor a system, nor what they are made of."""

import subprocess
import sys
from pathlib import Path

import pytest
from scaling_bundles import session

BLOCKED = ("ray", "torch", "gymnasium", "stable_baselines3", "zmq", "tianji", "baselines")
PROGRAM = f"""
import sys
sys.modules.update(dict.fromkeys({BLOCKED!r}))
import reports.page
import reports.paper
import reports.readme
from reports.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long(why="a whole report is built")
def test_a_report_is_built_where_nothing_that_measures_is_installed(tmp_path):
    made = session(tmp_path / "in", systems=("tianji", "xingtian"), counts=(1, 2), blocks=1)
    for command, mark in (("build", "index.html"), ("paper", "all.tex")):
        out = tmp_path / command
        arguments = [sys.executable, "-c", PROGRAM, command, str(made), "--out", str(out)]
        done = subprocess.run(arguments, capture_output=True, text=True, cwd=Path(__file__).parents[2])
        assert done.returncode == 0, done.stderr
        assert (out / mark).exists()
