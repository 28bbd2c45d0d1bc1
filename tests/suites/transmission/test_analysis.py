"""Transmission's arithmetic, against figures worked out by hand."""

from pathlib import Path

import msgspec
import pytest

from suites.records import bundle
from suites.records.bundle import Bundle, Manifest
from suites.records.events import Delays, Transfer
from suites.transmission import analysis, sweep
from suites.transmission.traffic import FEW_SLOTS, FEWEST_SLOTS, in_flight

KIB = 1 << 10


def cell(system, block, *, seconds, cpu_s=1.0, tcp_bytes=None, delays=None, replica=0, session="s", explorers=1):
    manifest = Manifest(
        schema=bundle.SCHEMA,
        status="completed",
        suite="transmission",
        profile="tiny",
        workload="samples",
        system=system,
        system_title=system,
        seed=block,
        replica=replica,
        block=block,
        position=0,
        session=session,
        explorers=explorers,
        cores=2,
        configuration={},
        deviations=[],
        environment={},
        phases_s={},
    )
    events = [Transfer(0, size_bytes=KIB, messages=1001, intervals=1000.0, seconds=seconds, cpu_s=cpu_s, tcp_bytes=tcp_bytes)]
    if delays is not None:
        events.append(Delays(0, kind="round_trip", size_bytes=KIB, count=101, percentiles_ns=delays))
    return Bundle(manifest, events, Path("nowhere"))


def rows(bundles, pairs):
    made = analysis.summarise(
        analysis.transfers(bundles), {"samples": {"testbed": "local", "nodes": 1}}, lambda workload, labels: pairs
    )
    return {(r["system"], r["metric"], r["baseline"]): r for r in made}


def test_goodput_cost_and_delay_of_one_cell():
    found = rows(
        [cell("a", 0, seconds=0.5, cpu_s=2.0, tcp_bytes=1001 * KIB * 1.25, delays=list(range(1000, 102000, 1000)))], []
    )
    values = {metric: row["value"] for (_, metric, _), row in found.items()}
    assert values == pytest.approx(
        {
            "goodput_bytes_per_s": 1000 * KIB / 0.5,
            "messages_per_s": 2000,
            "cpu_s_per_gb": 2.0 / (1001 * KIB / 1e9),
            "tcp_bytes_per_payload_byte": 1.25,
            "latency_p50_s": 51e-6,
            "latency_p95_s": 96e-6,
            "latency_p99_s": 100e-6,
        }
    )
    assert {(r["size_bytes"], r["explorers"], r["testbed"], r["n"]) for r in found.values()} == {(KIB, 1, "local", 1)}


def test_what_was_not_counted_has_no_row():
    found = rows([cell("a", 0, seconds=0.5)], [])
    assert {metric for _, metric, _ in found} == {"goodput_bytes_per_s", "messages_per_s", "cpu_s_per_gb"}


def test_ratios_are_formed_within_blocks_and_sessions():
    bundles = [cell("a", block, seconds=0.1 * (block + 1)) for block in range(5)]
    # Each block has its own pace, twice as slow for the other one; a cell of another session has no partner.
    bundles += [cell("b", block, seconds=0.2 * (block + 1)) for block in range(5)]
    bundles += [cell("b", 5, seconds=50.0), cell("b", 0, seconds=50.0, session="another")]
    row = rows(bundles, [("a", "b")])["a", "goodput_ratio", "b"]
    assert row["n"] == 5
    assert (row["value"], row["ci_low"], row["ci_high"]) == pytest.approx((2.0, 2.0, 2.0))


def two_sizes(system, block, small_s, large_s):
    """A cell that moved messages of 1 and of 4 KiB in these times."""
    small, large = cell(system, block, seconds=small_s), cell(system, block, seconds=large_s)
    small.events.append(msgspec.structs.replace(large.events[0], size_bytes=4 * KIB))
    return small


def test_a_mean_over_sizes_is_of_blocks_that_have_them_all():
    bundles = [two_sizes("a", block, 1.0, 1.0) for block in range(6)]
    # 2 times and 8 times the time: 4 in the geometric mean, whatever the sizes.
    bundles += [two_sizes("b", block, 2.0, 8.0) for block in range(5)] + [cell("b", 5, seconds=50.0)]
    row = rows(bundles, [("a", "b")])["a", analysis.OVER_SIZES, "b"]
    assert (row["n"], row["size_bytes"], row["explorers"]) == (5, None, 1)
    assert (row["value"], row["ci_low"], row["ci_high"]) == pytest.approx((4.0, 4.0, 4.0))


def test_a_second_run_is_a_label_of_its_own():
    bundles = [cell("a", block, seconds=1.0) for block in range(2)]
    bundles += [cell("a", block, seconds=2.0, replica=1) for block in range(2)]
    found = rows(bundles, [("a", "a-again")])
    assert found["a", "goodput_ratio", "a-again"]["value"] == pytest.approx(2.0)
    assert found["a", "goodput_ratio", "a-again"]["ci_low"] is None


def test_different_numbers_of_explorers_are_never_mixed():
    bundles = [cell("a", 0, seconds=1.0), cell("a", 0, seconds=4.0, explorers=4)]
    table = analysis.transfers(bundles)
    assert sorted(table["explorers"]) == [1, 4]
    made = analysis.summarise(table, {"samples": {}}, lambda workload, labels: [])
    assert {(r["explorers"], r["value"]) for r in made if r["metric"] == "messages_per_s"} == {(1, 1000.0), (4, 250.0)}


def test_percentiles_are_medians_over_blocks():
    bundles = [cell("a", b, seconds=1.0, delays=[b * 1000 + p for p in range(101)]) for b in (1, 2, 9)]
    frame = analysis.delays(bundles).set_index("percentile")["seconds"]
    assert frame[0] == pytest.approx(2000e-9)
    assert frame[100] == pytest.approx(2100e-9)


@pytest.mark.parametrize("explorers", [1, 4, 16])
@pytest.mark.parametrize("size", sweep.POWERS_OF_FOUR)
def test_what_is_in_flight_is_bounded(size, explorers):
    slots = in_flight(size, explorers)
    assert FEWEST_SLOTS <= slots <= 1024
    assert slots * size <= 16 << 20 or slots in (FEW_SLOTS, FEWEST_SLOTS)
    assert slots * size * explorers <= 2 << 30


def test_every_profile_names_what_there_is():
    for profile in sweep.PROFILES.values():
        assert set(profile.workloads) <= set(sweep.WORKLOADS)
        for extents in profile.extents.values():
            counts = [n for extent in extents for n in extent.explorers]
            assert len(counts) == len(set(counts))
            assert all(size % 8 == 0 for extent in extents for size in extent.sizes)
