"""What work takes, from cells that were recorded on nodes with a share of a core."""

from statistics import fmean

import past
import pytest
from msgspec.structs import replace

from programs.cli import ConfigError
from suites import __main__ as suites
from suites.calibration.recorded import between_work, calibrated, report_of
from suites.records import archive
from suites.records.events import Counter, Histogram
from suites.scaling import node_speeds
from tianji.simulation.calibration import Calibration, load
from tianji.simulation.machines import Machine
from tianji.telemetry import bin_of

CELLS, EIGHT = "scaling/cells-at-speed.parquet", "scaling/fan-in-at-speed.parquet"
"""Sessions that are in the history."""
BASE = Calibration(Machine(cores=2, wake_seconds=5e-5, message_seconds=2e-4), "a machine", {}, ("a note",))


@pytest.fixture(scope="module")
def single():
    """Cells of `tianji` on one node."""
    return [b for b in archive.read(past.session(CELLS)) if (b.manifest.system, b.manifest.nodes) == ("tianji", 1)]


def total(bundles, name):
    return sum(event.value for bundle in bundles for event in bundle.of(Counter) if event.name == name)


def test_roles_of_a_run_are_one_report(single):
    two_ms = bin_of(2_000_000)
    events = [
        Counter(0, "actor_took_fragment_s", 0.002, "actor g0.a0"),
        Counter(0, "actor_took_fragment_s", 0.004, "actor g1.a0"),
        Counter(0, "before_loops_per_s", 9.0),
        Histogram(0, "actor_took_fragment", {two_ms: 1}),
        Histogram(0, "actor_took_fragment", {two_ms: 1, two_ms + 16: 1}),
    ]
    found = report_of(replace(single[0], events=events))
    assert found.counters == {"took_fragment_s": pytest.approx(0.006)}
    assert found.histograms == {"took_fragment": {two_ms: 2, two_ms + 16: 1}}


def test_work_is_that_of_cells_on_one_node(single):
    found = calibrated(BASE, single)
    assert (found.machine, found.notes) == (BASE.machine, BASE.notes)
    assert found.measured_on.startswith("a machine; work from dqn-cpu-weak, 2 runs on one node of 0.2 cores and 0 on 2; ")
    assert set(found.work) == {"cartpole-dqn-nodes", "cartpole-dqn-latency"}
    cells = [b for b in single if b.manifest.workload == "dqn-cpu-weak"]
    work = found.of("cartpole-dqn-nodes")
    (fragment,), (trained,) = work.fragments, work.rounds
    for role, one, name in (("actor", fragment, "fragment"), ("learner", trained, "round")):
        histograms = [event.counts for b in cells for event in b.of(Histogram) if event.name == f"{role}_took_{name}"]
        assert one.compute.count == sum(sum(counts.values()) for counts in histograms)
    # Nodes of a fifth of a core.
    assert work.loops_per_s == pytest.approx(fmean(fmean(node_speeds.means(b)) for b in cells) / 0.2)
    # Of two nodes there are no cells, so nothing is known of means.
    assert work.mean is work.adoption is None


def test_all_processor_time_is_in_pieces_of_work_and_messages(single):
    cells = [b for b in single if b.manifest.workload == "dqn-cpu-weak"]
    (fragment,), (trained,) = (
        getattr(calibrated(BASE, cells).of("cartpole-dqn-nodes"), name) for name in ("fragments", "rounds")
    )
    used_s = total(cells, "actor_processor_s") + total(cells, "learner_processor_s")
    # A chunk goes to the learner, its slot comes back, and weights follow a round. Each side computes half of that.
    messages = (used_s - fragment.compute.sum_s - trained.compute.sum_s) / BASE.machine.message_seconds
    assert 2 * total(cells, "actor_chunks_produced") < messages < 4 * total(cells, "actor_chunks_produced")
    assert fragment.compute.sum_s > total(cells, "actor_took_fragment_s")
    assert trained.compute.sum_s > total(cells, "learner_took_round_s")


def test_time_between_work_is_that_of_whole_processes(single):
    events = [
        Counter(0, "actor_took_fragment_s", 2.0, "actor g0.a0"),
        Counter(0, "actor_took_fragment_s", 3.0, "actor g0.a1"),
        Counter(0, "actor_processor_s", 3.5, "actor g0.a1"),
        Counter(0, "learner_took_round_s", 4.0, "learner g0"),
        Counter(0, "learner_processor_s", 7.0, "learner g0"),
    ]
    # The first actor is in the learner's process.
    assert between_work(replace(single[0], events=events)) == (0.5, 1.0)


def test_two_experiments_of_one_workload_are_refused(single):
    # Both are about the workload `pixels-dqn-link`, and the first one has cells on one node too.
    narrow = archive.read(past.session("scaling/narrow-1.parquet"))
    other = [replace(b, manifest=replace(b.manifest, workload="dqn-link-weak")) for b in narrow]
    with pytest.raises(ConfigError, match="two experiments"):
        calibrated(BASE, [*narrow, *other])
    unknown = [replace(b, manifest=replace(b.manifest, workload="dqn-wide-weak")) for b in single]
    with pytest.raises(ConfigError, match="no experiment dqn-wide-weak"):
        calibrated(BASE, unknown)


def test_a_cell_without_work_is_named(single):
    with pytest.raises(ConfigError, match="dqn-cpu-weak on one node: no whole fragment"):
        calibrated(BASE, [replace(b, events=[]) for b in single if b.manifest.workload == "dqn-cpu-weak"])


def test_a_workload_of_another_version_is_one_line(single):
    cell = single[0]
    other = {**cell.manifest.configuration, "workload": {"env": 1}}
    with pytest.raises(ConfigError, match="has no workload that this version can read"):
        calibrated(BASE, [replace(cell, manifest=replace(cell.manifest, configuration=other))])


def test_the_command_writes_a_file(tmp_path, capsys):
    BASE.save(tmp_path / "base.json")
    out = tmp_path / "new.json"
    given = ["--cells", str(past.session(CELLS)), "--machine", str(tmp_path / "base.json"), "--out", str(out)]
    assert suites.main(["calibrate", *given]) == 0
    assert capsys.readouterr().out == f"calibration: {out}\n"
    assert set(load(out).work) == {"cartpole-dqn-nodes", "cartpole-dqn-latency"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cells", CELLS], "with --machine"),
        (["--machine", "base.json"], "only with --cells"),
        (["--cells", CELLS, "--machine", "base.json", "--seconds", "3"], "neither --workloads nor --seconds"),
        (["--cells", "nowhere.parquet", "--machine", "base.json"], "nowhere.parquet"),
        (["--cells", EIGHT, "--machine", "base.json"], "no completed cells of tianji on one node"),
    ],
)
def test_wrong_input_is_one_line_and_nothing_is_written(arguments, says, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    BASE.save(tmp_path / "base.json")
    given = [str(past.session(one)) if one in (CELLS, EIGHT) else one for one in arguments]
    with pytest.raises(ConfigError, match=says) as refused:
        suites.main(["calibrate", *given, "--out", "new.json"])
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "new.json").exists()
