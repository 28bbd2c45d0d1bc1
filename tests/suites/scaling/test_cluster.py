"""The commands of docs/scaling.md for two hosts, run on two emulated ones."""

import json
import subprocess
import sys
from pathlib import Path

import on_two_hosts
import pytest

from suites.testbed import registry

REASON = registry.unavailable("netns") or registry.unavailable("ray")


@pytest.mark.long(why="nodes are made, and runs on them")
@pytest.mark.skipif(REASON is not None, reason=f"no hosts can be emulated, or there is no Ray: {REASON}")
@pytest.mark.timeout(240)
@pytest.mark.xdist_group("ray")
def test_the_commands_of_the_document_give_a_bundle_of_two_hosts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("c")
    command = [
        sys.executable,
        "-m",
        "suites.testbed.keeper",
        "0",
        sys.executable,
        str(Path(on_two_hosts.__file__)),
        str(folder / "out"),
    ]
    # Daemons run under a keeper, so that all of them end with it, or when its standard input is closed.
    output = subprocess.STDOUT
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True) as keeper:
        said = keeper.stdout.read()
    assert keeper.returncode == 0, said
    told = json.loads(said.splitlines()[-1])
    assert (told["status"], told["testbed"], told["nodes"], told["error"]) == ("completed", "ray", 2, None)
    assert [check["node"] for check in told["checks"]] == [1, 2]
    assert all(check["link_measured_bits_per_s"] > 1e8 for check in told["checks"])
    assert {"learner g0", "learner g1", "actor g0.a0", "actor g1.a0"} <= set(told["roles"])
    assert (told["config"]["launcher"], told["config"]["encrypt"]) == ("ray", True)
    assert "nodes are those of a Ray cluster, as they are" in told["deviations"]
