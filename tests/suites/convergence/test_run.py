"""Profiles of the convergence suite, and runs that stop at their goal."""

import pytest

from programs.cli import run
from suites.__main__ import main
from suites.convergence.analysis import understand
from suites.convergence.run import Convergence
from suites.records import bundle
from suites.records.events import Evaluation, Snapshot
from suites.session.suite import Request


def request(**more):
    usual = {
        "systems": None,
        "workloads": None,
        "blocks": None,
        "first_seed": 0,
        "once": False,
        "testbed": None,
        "cores": (0, 1),
    }
    return Request(**{"profile": "smoke", **usual, **more})


def systems_by_block(plan):
    return {(cells[0].workload, cells[0].block): [cell.label for cell in cells] for cells in plan.blocks()}


def test_rllib_runs_in_the_first_block_of_a_smoke_session_only_unless_it_is_named():
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed (the extra sb3)")
    found = systems_by_block(Convergence().plan(request())[0])
    assert {key: "rllib" in labels for key, labels in found.items()} == {
        (workload, block): block == 0 for workload in ("cartpole-ppo-zoo", "cartpole-dqn-quick") for block in (0, 1)
    }
    assert {"tianji-relaxed" in labels for (workload, _), labels in found.items() if "ppo" in workload} == {True}
    named = systems_by_block(Convergence().plan(request(systems=("tianji", "rllib")))[0])
    assert all("rllib" in labels for labels in named.values())
    standard = systems_by_block(Convergence().plan(request(profile="standard"))[0])
    assert all("rllib" in labels for labels in standard.values())


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("profile", ["smoke", "standard"])
def test_a_smoke_run_stops_at_its_goal_and_says_so(guests, tiny, tmp_path, profile):
    out, workload = tmp_path / "out", tiny(training=100.0, evaluated=501.0)
    workload.write_text(workload.read_text().replace("budget_steps = 1024", "budget_steps = 4096"))
    chosen = ["--busy", "--profile", profile, "--systems", "keen", "--workloads", str(workload), "--seeds", "1", "--once"]
    assert run("tianji-bench", main, ["run", "convergence", *chosen, "--out", str(out)]) == 0
    (cell,) = map(bundle.read, bundle.find([out]))
    assert cell.manifest.status == "completed"
    steps = [event.steps for event in cell.events if isinstance(event, Snapshot)]
    # The goal is before the second snapshot; two in a row are asked for.
    goal = [0, 256, 512]
    assert steps == (goal if profile == "smoke" else [*range(0, 4097, 256)])
    assert cell.manifest.configuration.get("stop_at_goal") is (True if profile == "smoke" else None)
    assert [event.steps for event in cell.events if isinstance(event, Evaluation)] == steps
    assert understand(cell).crossings["training"].steps == 256
