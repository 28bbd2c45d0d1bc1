"""The bare loop on nodes: blocks whose nodes changed their speed are thrown out."""

import msgspec
import pytest
import scaling_bundles as made

from reports import summaries
from suites.records import bundle
from suites.records.events import Counter
from suites.scaling import checks, node_speeds
from suites.scaling.analysis import understand


def session(folder, speeds, **setting):
    """Two blocks on 1, 4 and 8 nodes; `speeds` by (nodes, block), before and after, where it is not 100."""
    folder = made.session(folder, made.Setting(**setting), systems=("tianji", "xingtian"), counts=(1, 4, 8), blocks=2)
    read = [bundle.read(path) for path in bundle.find([folder])]
    return [with_speeds(b, *speeds.get((b.manifest.nodes, b.manifest.block), (100.0, 100.0))) for b in read]


def with_speeds(b, before, after):
    nodes = range(b.manifest.nodes)
    counters = [
        Counter(1, name, value + 0.1 * node, node_speeds.node_role(node))
        for name, value in ((node_speeds.BEFORE, before), (node_speeds.AFTER, after))
        for node in nodes
    ]
    return msgspec.structs.replace(b, events=[*b.events, *counters])


def kept(bundles):
    runs, thrown_out = checks.steady([understand(b) for b in bundles])
    return {run.block[1] for run in runs}, {(b.manifest.block, why) for b, why in thrown_out}


@pytest.mark.long(why="nodes are made, and runs on them")
@pytest.mark.parametrize(
    ("nodes", "speed", "why"),
    [
        (8, (100.0, 94.0), "nodes of {} on 8 nodes did 100 loops/s before the run and 94 after it"),
        (8, (94.0, 100.0), "nodes of {} on 8 nodes did 94 loops/s before the run and 100 after it"),
        (1, (92.0, 92.0), "nodes of {} on 1 node did 92 loops/s, and 100 in the median of its cells"),
        (1, (108.0, 108.0), "nodes of {} on 1 node did 108 loops/s, and 100 in the median of its cells"),
    ],
)
def test_a_block_whose_nodes_changed_is_thrown_out_whole(tmp_path, nodes, speed, why):
    blocks, thrown_out = kept(session(tmp_path, {(nodes, 1): speed}))
    assert blocks == {0}
    ((block, reason),) = thrown_out
    assert block == 1
    assert reason.startswith("block 1 is thrown out: ")
    assert why.format("tianji") in reason
    assert why.format("xingtian") in reason


def test_a_change_below_the_tolerance_stays(tmp_path):
    assert kept(session(tmp_path, {(8, 1): (100.0, 96.0), (1, 0): (96.0, 96.0)})) == ({0, 1}, set())


def test_nodes_that_share_cores_and_bundles_without_readings_are_not_judged(tmp_path):
    shared = session(
        tmp_path / "shared", {(1, 0): (800.0, 800.0)}, regime={"id": "link-bound", "cores": None, "link_bits_per_s": None}
    )
    assert kept(shared) == ({0, 1}, set())
    plain = [msgspec.structs.replace(b, events=[e for e in b.events if not isinstance(e, Counter)]) for b in shared]
    assert kept(plain) == ({0, 1}, set())


def test_the_report_says_what_was_thrown_out_and_counts_the_rest(tmp_path):
    found = session(tmp_path, {(8, 1): (100.0, 90.0)})
    summary = summaries.of_scaling(found)
    assert {b.manifest.block for b, _ in summary.unusable} == {1}
    assert len(summary.unusable) == 6
    speedups = [r for r in summary.rows if r["metric"] == "unique_consumption_speedup_ratio"]
    assert {r["n"] for r in speedups} == {1}
    points = summary.series["scaling-checks"]
    assert set(points["block"]) == {0}
    last = points[(points["nodes"] == 8) & (points["node"] == 7)]
    assert last[node_speeds.AFTER].tolist() == pytest.approx([100.7, 100.7])


def test_a_session_of_which_nothing_stays_has_no_rows(tmp_path):
    found = session(tmp_path, {(8, 0): (100.0, 90.0), (8, 1): (100.0, 90.0)})
    summary = summaries.of_scaling(found)
    assert (summary.rows, len(summary.unusable)) == ([], 12)


def test_a_smoke_block_stays_with_a_caveat(tmp_path):
    """Its answer would have no line otherwise, on a machine whose speed changes."""
    bundles = [
        msgspec.structs.replace(b, manifest=msgspec.structs.replace(b.manifest, profile="smoke"))
        for b in session(tmp_path, {(8, 1): (100.0, 80.0)})
    ]
    assert kept(bundles) == ({0, 1}, set())
    (line,) = checks.caveats([understand(b) for b in bundles])
    assert "block 1: the same loop ran up to 25% faster" in line
    summary = summaries.of_scaling(bundles)
    assert (summary.unusable, list(summary.caveats)) == ([], [line])
    assert any(row["metric"] == "unique_consumption_speedup_ratio" for row in summary.rows)
