"""Thinned sessions: smaller, and an analysis says the same of them."""

import numpy as np
import pytest
import scaling_bundles
from bundles import WORKLOAD, make

from programs.cli import run
from suites import thinning
from suites.__main__ import main
from suites.asynchrony.analysis import machine_share
from suites.convergence import analysis as convergence
from suites.disciplines.analysis import rate
from suites.records import archive, bundle
from suites.records.events import Episode, Evaluation, FirstStep, NodeUsage, Progress, Snapshot, Usage
from suites.scaling import analysis as scaling

MS = 1_000_000
START = 7 * 10**12
LEARNT = {"workload": WORKLOAD | {"budget_steps": 300_000, "thresholds": {"training": 190.0, "evaluated": 150.0}}}


def events(seed, best=200.0):
    """A run of a minute whose returns grow to `best`; actors and learner report every 20 ms, and all at odd moments."""
    draw = np.random.default_rng(seed)
    found = [FirstStep(START)]
    steps = 0
    for at in np.sort(draw.integers(1, 60_000 * MS, 3_000)).tolist():
        steps += 100
        grown = best * min(1.0, steps / 150_000)
        found.append(Episode(START + at, float(round(grown + draw.integers(-9, 9))), 100, steps))
    for number in range(61):
        at = START + number * 1_000 * MS - 123
        found.append(Snapshot(at, number * 5_000, number, f"{number}.safetensors"))
        found.append(Evaluation(at + 5, number * 5_000, number, "curve", [min(best, number * 6.0)]))
    for tick in range(-5, 3_000):
        at = START + tick * 20 * MS + int(draw.integers(0, MS))
        found.append(Usage(at, (tick + 5) * 0.03 + float(draw.random()) * 0.01, 10**9 + int(draw.integers(0, 10**8))))
        if tick > 0:
            found.append(Progress(at, "actor g0.a0", {"samples_produced": tick * 101.0}))
            found.append(Progress(at + 7, "learner g0", {"samples_consumed_unique": float(tick * 100 + draw.integers(0, 50))}))
            found.append(NodeUsage(at + 9, node=0, cpu_s=tick * 0.02))
    return found


def both(folder, seed, suite, **more):
    """A run, and the same thinned."""
    whole = bundle.read(make(folder, events=events(seed, **more), suite=suite, configuration=LEARNT))
    return whole, thinning.thinned(whole, "0" * 64)


@pytest.mark.parametrize("suite", ["convergence", "disciplines", "price"])
@pytest.mark.parametrize("best", [200.0, 170.0, 100.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_said_of_a_thinned_run_is_what_was_said_of_the_whole_one(tmp_path, seed, best, suite):
    whole, thin = both(tmp_path, seed, suite, best=best)
    before, after = convergence.understand(whole), convergence.understand(thin)
    # Seconds of runs in lockstep are no system's.
    close = 1e-2 if suite == "price" else 1e-4
    for kind, crossing in before.crossings.items():
        assert (crossing is None) is (best < LEARNT["workload"]["thresholds"][kind])
        assert (after.crossings[kind] is None) is (crossing is None)
        if crossing is not None:
            assert vars(after.crossings[kind]) == pytest.approx(vars(crossing), rel=close)
    assert after.measured_s == pytest.approx(before.measured_s, rel=close)
    assert after.measured_steps == before.measured_steps
    assert after.cpu_s == pytest.approx(before.cpu_s, rel=1e-6)
    assert after.peak_rss_bytes == before.peak_rss_bytes
    assert after.production_steps_per_s == pytest.approx(before.production_steps_per_s, rel=close)
    if suite != "price":
        assert after.training["mean_return"].iloc[-1] == before.training["mean_return"].iloc[-1]
    assert list(after.evaluated["mean_return"]) == list(before.evaluated["mean_return"])
    assert machine_share(thin) == pytest.approx(machine_share(whole), rel=close)
    for name, role in (("samples_consumed_unique", "learner"), ("samples_produced", "actor")):
        assert rate(thin, name, role) == pytest.approx(rate(whole, name, role), rel=close)
    drawn = suite == "convergence"
    assert (len(after.training) == len(before.training)) is drawn
    assert len(thin.of(Progress)) < len(whole.of(Progress)) / 50
    assert len(thin.of(Usage)) < len(whole.of(Usage)) / 50
    assert len(thin.of(Episode)) == 3_000 if drawn else len(thin.of(Episode)) <= 200
    assert {event.file for event in thin.of(Snapshot)} == {thinning.GONE}


@pytest.mark.parametrize("trains", [True, False])
def test_a_run_on_nodes_says_the_same(tmp_path, trains):
    setting = scaling_bundles.Setting(trains=trains, measured_s=30.0)
    whole = bundle.read(scaling_bundles.write(tmp_path, "tianji", 2, 0, setting))
    thin = thinning.thinned(whole, "0" * 64)
    before, after = scaling.understand(whole), scaling.understand(thin)
    assert after.window_s == pytest.approx(before.window_s, rel=1e-4)
    assert after.metrics == pytest.approx(before.metrics, rel=1e-4, nan_ok=True)
    for one, other in zip(before.rates, after.rates, strict=True):
        assert other == pytest.approx(one, rel=1e-4, nan_ok=True)
    assert len(thin.of(Progress)) < len(whole.of(Progress))


def test_events_of_one_moment_stay_in_their_order(tmp_path):
    """Two actors' episodes end within a rounded moment of each other; the later one stands first in the file."""
    found = [
        FirstStep(START),
        Episode(START + 900, 2.0, 1, 2),
        Episode(START + 100, 1.0, 1, 1),
        Snapshot(START + 950, 2, 1, "f"),
    ]
    thin = thinning.thinned(bundle.read(make(tmp_path, events=found, configuration=LEARNT)), "0" * 64)
    assert [event.episode_return for event in thin.of(Episode)] == [1.0, 2.0]
    assert {event.ns % thinning.GRAIN_NS for event in thin.events} == {0}


def test_a_run_that_failed_stays_as_far_as_it_came(tmp_path):
    found = [FirstStep(START), Episode(START + 9 * MS, 1.0, 1, 1)]
    thin = thinning.thinned(bundle.read(make(tmp_path, events=found, status="failed", error="x", suite="price")), "0" * 64)
    assert len(thin.events) == 2


def test_the_command_writes_a_session_that_names_the_one_it_is_of(tmp_path, capsys):
    file, out = tmp_path / "whole.parquet", tmp_path / "thin.parquet"
    make(tmp_path / "in", events=events(0), configuration=LEARNT)
    archive.seal(tmp_path / "in", file)
    assert run("tianji-bench", main, ["thin", str(file), "--out", str(out)]) == 0
    assert "1 runs in" in capsys.readouterr().out
    assert out.stat().st_size < file.stat().st_size / 3
    (whole,), (thin,) = archive.read(file), archive.read(out)
    assert thin.manifest.derived_from == archive.digests(file)[whole.path.name]
    assert archive.about(out) == archive.about(file)
    before = out.read_bytes()
    assert run("tianji-bench", main, ["thin", str(file), "--out", str(out)]) == 2
    assert "never written over" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert run("tianji-bench", main, ["thin", str(out), "--out", str(tmp_path / "more.parquet")]) == 2
    assert "is thinned already" in capsys.readouterr().err
    assert run("tianji-bench", main, ["thin", str(tmp_path / "none.parquet"), "--out", str(tmp_path / "more.parquet")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "more.parquet").exists()
