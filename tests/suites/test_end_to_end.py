"""Every system that comes with the project, on real training, through the runner, to a report."""

import json

import numpy as np
import pytest

from reports.__main__ import main as report
from suites.__main__ import main as bench
from suites.convergence.analysis import understand
from suites.records import bundle, machine
from suites.records.events import Evaluation, Snapshot

BUDGET, ROUND = 1024, 128


@pytest.mark.long(why="every system trains, RLlib among them")
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("ray")
def test_every_system_side_by_side(tiny, tmp_path, capsys, monkeypatch):
    # A block runs again if the machine changed, which is not what this is about.
    monkeypatch.setattr(machine, "bare_loop", lambda on, seconds: 1.0)
    out = tmp_path / "session"
    workload = tiny(training=15.0, evaluated=9.0)
    chosen = ["--busy", "--profile", "standard", "--workloads", str(workload), "--seeds", "1"]
    assert bench(["run", "convergence", *chosen, "--out", str(out)]) == 0
    cells = {b.path.name.rpartition(".")[2]: b for b in map(bundle.read, bundle.find([out]))}
    assert set(cells) == {"sync", "sync-again", "tianji", "tianji-relaxed", "xingtian", "rllib", "sb3"}
    runs = {name: understand(cell) for name, cell in cells.items()}
    for name, run in runs.items():
        assert run.bundle.manifest.status == "completed", name
        assert run.evaluated["steps"].iloc[0] == 0
        assert BUDGET - 2 * ROUND < run.evaluated["steps"].iloc[-1] <= BUDGET + ROUND, name
        assert run.crossings["evaluated"] is not None
        assert run.crossings["evaluated"].core_seconds is not None
        assert run.production_steps_per_s > 0
        assert run.cpu_s > 0
        assert run.bundle.manifest.phases_s["setup"] > 0
    # Every system starts from the same weights.
    starts = {n: [e.returns for e in c.events if isinstance(e, Evaluation) and e.steps == 0] for n, c in cells.items()}
    assert len({json.dumps(s) for s in starts.values()}) == 1
    # Strict TianJi, the synchronous system and its second run are one and the same training run.
    means = [runs[name].evaluated["mean_return"].to_numpy() for name in ("sync", "sync-again", "tianji")]
    assert np.array_equal(means[0], means[1])
    assert np.array_equal(means[0], means[2])
    assert cells["rllib"].manifest.deviations
    assert cells["sb3"].manifest.deviations
    # It steps whole rounds, and each as often as the workload says: 1,024 steps are 8 rounds of 2 epochs of 2 minibatches.
    assert [e.version for e in cells["sb3"].events if isinstance(e, Snapshot)][-1] == 32

    capsys.readouterr()
    assert report(["build", str(out), "--out", str(tmp_path / "report")]) == 0
    rows = json.loads((tmp_path / "report" / "summary.json").read_text())["rows"]
    ratios = {(r["system"], r["baseline"]) for r in rows if r["metric"] == "time_to_threshold_ratio"}
    peers = {(ours, peer) for ours in ("tianji", "tianji-relaxed", "sync") for peer in ("xingtian", "rllib", "sb3")}
    peers |= {("tianji", "tianji-relaxed"), ("tianji-relaxed", "sync"), ("sync", "tianji-relaxed")}
    assert peers | {("tianji", "sync"), ("xingtian", "rllib"), ("sync", "sync-again")} == ratios
