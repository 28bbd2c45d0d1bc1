"""The ledger of claims: every claim of the literature once, verdicts by the rule, nothing left out."""

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from reports import claims, dataset
from reports.claims import Claim, Hardware, Reading, judge, ledger, verdict
from reports.table import Table

PUBLISHED = {
    "tianji-convergence": 4.37,
    "tianji-8node-convergence": 1.6,
    "tianji-8node-throughput": 7.13,
    "tianji-transmission": None,
    "tianji-onpolicy-rllib": 4.36,
    "tianji-onpolicy-xingtian": 2.95,
    "xingtian-transmission": 2.0,
    "xingtian-throughput": 1.7071,
    "xingtian-4node-throughput": 1.9112,
    "htsrl": 2.0,
    "spreeze": None,
}


def test_the_ledger_has_what_was_published():
    assert {claim.id: claim.published for claim in ledger()} == PUBLISHED
    for claim in ledger():
        assert claim.source
        assert claim.says.endswith(".")
        assert claim.needs, "what it would take is always said"
        assert bool(claim.reading) == bool(claim.systems)
        assert (claim.reads_as is None) or claim.why, "a value that is ours has its reason"


@pytest.mark.parametrize(
    ("low", "high", "claimed", "own", "expected"),
    [
        (7.2, 8.0, 7.13, True, "reproduced"),
        (7.2, 8.0, 7.13, False, "holds in analogue"),
        (6.9, 8.0, 7.13, True, "direction holds"),
        (1.01, 1.2, 7.13, False, "direction holds"),
        (0.9, 1.2, 7.13, False, "inconclusive"),
        (0.5, 0.9, 7.13, False, "contradicted"),
        (None, None, 7.13, False, "inconclusive"),
    ],
)
def test_verdicts_of_ratios(low, high, claimed, own, expected):
    assert verdict(low, high, claimed, share=False, own_hardware=own) == expected


def test_verdicts_of_shares_turn_at_half_of_what_is_claimed():
    shares = [(0.95, 0.99), (0.60, 0.80), (0.40, 0.50), (0.30, 0.40)]
    assert [verdict(*ends, 0.9, share=True, own_hardware=False) for ends in shares] == [
        "holds in analogue",
        "direction holds",
        "inconclusive",
        "contradicted",
    ]


def row(**more):
    keys = {
        "suite": "convergence",
        "workload": "w",
        "system": "tianji",
        "baseline": "rllib",
        "metric": "time_to_threshold_ratio",
        "machine": "2 cores of a processor",
        "options": None,
    }
    return {**keys, "testbed": "local", "nodes": 1, "value": 5.0, "ci_low": 4.5, "ci_high": 5.5, "n": 5, "censored": 0, **more}


def data(*rows, cores=2):
    machines = {row["machine"]: {"cpu_usable": cores} for row in rows}
    return SimpleNamespace(table=Table(rows), environments=machines | {"64 cores of a server": {"cpu_usable": 64}})


CLAIM = Claim(
    id="c",
    source="somebody",
    says="It is faster.",
    needs="a larger machine",
    published=4.37,
    hardware=Hardware(cores=40),
    reading=(Reading("first", {"workload": "w", "baseline": "rllib"}), Reading("second", {"workload": "w", "baseline": "sb3"})),
)


SECOND = {"baseline": "sb3"}


def test_every_reading_must_hold_and_all_are_shown():
    (judged,) = judge(data(row(), row(baseline="sb3", value=0.8, ci_low=0.7, ci_high=0.9)), [CLAIM])
    assert judged.verdict == "contradicted"
    assert [(f.reading, f.verdict) for f in judged.evidence] == [("first", "holds in analogue"), ("second", "contradicted")]
    assert judged.evidence[0].measured == "5.00x [4.50, 5.50], n = 5"
    assert judged.evidence[0].machine == "2 cores of a processor"
    (on_its_hardware,) = judge(data(row(), row(**SECOND), cores=64), [CLAIM])
    assert on_its_hardware.verdict == "reproduced"


def test_an_interval_that_reaches_below_1_in_one_reading_leaves_a_claim_open():
    """As of eight nodes: 2.53 [2.11, 3.03] by one return, 1.84 [0.995, 3.41] by the other."""
    claim = msgspec.structs.replace(CLAIM, published=1.6)
    first, second = {"value": 2.53, "ci_low": 2.11, "ci_high": 3.03}, {"value": 1.84, "ci_low": 0.995, "ci_high": 3.41}
    (judged,) = judge(data(row(**first), row(**SECOND, **second)), [claim])
    assert judged.verdict == "inconclusive"
    (judged,) = judge(data(row(**first), row(**SECOND, **first)), [claim])
    assert judged.verdict == "holds in analogue"


def test_a_reading_that_was_not_measured_leaves_a_claim_open():
    (judged,) = judge(data(row()), [CLAIM])
    assert [one.verdict for one in judged.evidence] == ["holds in analogue", "not measured here"]
    assert judged.verdict == "inconclusive"


def test_what_speaks_for_a_claim_is_judged_for_all_claims_together():
    """At n = 5 the interval of one claim in four has 4.315 / 2.776 times the width, by a table of Student's t."""
    claims = [msgspec.structs.replace(CLAIM, id=f"c{at}", reading=CLAIM.reading[:1]) for at in range(4)]
    low = 4.6
    assert 5.0 * (low / 5.0) ** (4.315 / 2.776) < 4.4 < low
    claims = [msgspec.structs.replace(one, published=4.4) for one in claims]
    measured = data(row(ci_low=low, ci_high=5.0**2 / low))
    assert [one.verdict for one in judge(measured, claims)] == ["direction holds"] * 4
    assert [one.verdict for one in judge(measured, claims[:1])] == ["holds in analogue"]
    against = data(row(value=0.9, ci_low=0.82, ci_high=0.99))
    assert [one.verdict for one in judge(against, claims)] == ["contradicted"] * 4, "no adjustment hides what is against it"


def test_a_rebuilt_system_is_said_to_be_one():
    rebuilt = {"baseline": "xingtian"}
    claim = msgspec.structs.replace(CLAIM, reading=(Reading("against it", {"workload": "w", **rebuilt}),))
    (judged,) = judge(data(row(**rebuilt)), [claim])
    assert judged.said == "holds in analogue (steelman)"
    assert judged.evidence[0].measured.endswith("; steelman")
    both = msgspec.structs.replace(claim, reading=(*claim.reading, CLAIM.reading[0]))
    (judged,) = judge(data(row(**rebuilt), row()), [both])
    assert judged.said == "holds in analogue", "one reading is of a system as it is"


def test_a_system_of_the_same_code_does_not_decide_and_stands_in_the_same_sentence():
    beside = Reading("against ourselves", {"workload": "w", "baseline": "sync"}, "synchronous, training")
    claim = msgspec.structs.replace(CLAIM, reading=(CLAIM.reading[0], beside))
    slower = row(baseline="sync", value=0.9, ci_low=0.85, ci_high=0.95)
    (judged,) = judge(data(row(), slower), [claim])
    assert judged.verdict == "holds in analogue"
    assert judged.said == (
        "holds in analogue; against systems of the same code, which do not decide: synchronous, training 0.900x [0.850, 0.950]"
    )
    assert [one.verdict for one in judged.evidence] == ["holds in analogue", "contradicted"]
    (alone,) = judge(data(slower), [claim])
    assert alone.verdict == "not measured here", "it never decides"
    (without,) = judge(data(row()), [claim])
    assert (without.verdict, without.said) == ("holds in analogue", "holds in analogue")


def test_what_nodes_cannot_give_is_a_fault_and_speaks_for_nothing():
    speedup = {"metric": "unique_consumption_speedup_ratio", "baseline": "self@1", "nodes": 8, "scaling": "weak"}
    claim = msgspec.structs.replace(CLAIM, published=7.13, reading=(Reading("nodes", {"workload": "w", "baseline": "self@1"}),))
    (judged,) = judge(data(row(**speedup, value=8.03, ci_low=7.9, ci_high=8.2)), [claim])
    assert "above 8, which 8 nodes cannot give: the one-node cell was slow" in judged.evidence[0].measured
    assert judged.verdict == "holds in analogue", "8 is in its interval"
    (judged,) = judge(data(row(**speedup, value=10.9, ci_low=10.5, ci_high=11.2)), [claim])
    assert judged.verdict == "inconclusive"


def test_where_a_side_missed_the_target_the_restricted_mean_decides():
    easy = row(n=6, censored=4)
    every = row(metric="restricted_mean_time_ratio", value=1.2, ci_low=0.9, ci_high=1.6, n=10)
    claim = msgspec.structs.replace(
        CLAIM, reading=(Reading("seconds", {"workload": "w", "baseline": "rllib", "metric": "time_to_threshold_ratio"}),)
    )
    (judged,) = judge(data(easy, every), [claim])
    assert judged.verdict == "inconclusive"
    assert judged.evidence[0].measured.startswith(
        "restricted mean 1.20x [0.900, 1.60], n = 10; 5.00x in the 6 in which both reached it; all of it below 4.37x"
    )


def test_comparable_systems_are_all_that_tianji_met_there():
    (claim,) = (one for one in ledger() if one.id == "tianji-convergence")
    held = {(reading.row["baseline"], reading.row["threshold_kind"]) for reading in claim.reading}
    bundles = dataset.load([Path(__file__).parents[2] / "results" / "reference" / "convergence" / "cartpole-ppo-zoo.parquet"])
    met = bundles.table.where(
        suite="convergence", workload="cartpole-ppo-zoo", system="tianji", metric="time_to_threshold_ratio", options=None
    ).rows
    opponents = {(one["baseline"], one["threshold_kind"]) for one in met if not one["baseline"].startswith("tianji")}
    assert held >= {pair for pair in opponents if not pair[0].endswith("-again")}
    assert {reading.row["baseline"] for reading in claim.reading if reading.beside} == {"xingtian", "sync-one"}
    assert {reading.row["baseline"] for reading in claim.reading if not reading.beside} == {
        *("rllib", "rllib-old", "rllib-appo", "sample-factory", "torchrl", "sb3", "sbx")
    }, "of every other maker"


def test_what_was_not_measured_says_what_it_would_take():
    (judged,) = judge(data(), [CLAIM])
    assert (judged.verdict, judged.needs) == ("not measured here", "a larger machine")


def test_tianji_as_published_stands_beside_tianji_where_it_was_run():
    rows = row(), row(**SECOND), row(system="tianji-as-published", value=2.0, ci_low=1.8, ci_high=2.2)
    (judged,) = judge(data(*rows), [CLAIM])
    assert [(f.system, f.verdict) for f in judged.evidence][-1] == ("tianji-as-published", "direction holds")
    assert judged.verdict == "holds in analogue", "the verdict is of TianJi"


def test_runs_that_did_not_get_there_are_said():
    (judged,) = judge(data(row(n=5, censored=2)), [CLAIM])
    assert "2 pairs left out" in judged.evidence[0].measured
    (judged,) = judge(data(row(value=None, ci_low=None, ci_high=None, n=0, censored=5)), [CLAIM])
    assert judged.verdict == "inconclusive"
    assert judged.evidence[0].measured == "5 of 5 pairs missed the target"


def test_a_reading_that_says_too_little_is_refused():
    with pytest.raises(ValueError, match=r"2 rows of summary\.json answer to"):
        judge(data(row(), row()), [CLAIM])


WEAK, CONTRADICTED = {"value": 2.0, "ci_low": 1.8, "ci_high": 2.2}, {"value": 0.8, "ci_low": 0.7, "ci_high": 0.9}
SERVER, LAPTOP = {"machine": "64 cores of a server"}, {"machine": "2 cores of a laptop"}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(**WEAK), row(**SERVER)], "reproduced"),
        ([row(), row(**SERVER, **CONTRADICTED)], "contradicted"),
        ([row(), row(**LAPTOP, **WEAK)], "direction holds"),
        ([row(**CONTRADICTED), row(**LAPTOP)], "contradicted"),
        ([row(), row(**LAPTOP, value=None, ci_low=None, ci_high=None, n=0)], "holds in analogue"),
    ],
    ids=["its own hardware", "its own hardware alone", "the weakest", "the weakest, whichever is first", "what was measured"],
)
def test_of_several_machines_the_one_of_the_claims_kind_decides_or_else_the_weakest(rows, expected):
    (judged,) = judge(data(*rows), [msgspec.structs.replace(CLAIM, reading=CLAIM.reading[:1])])
    assert judged.verdict == expected
    first = [one for one in judged.evidence if one.reading == "first"]
    assert {one.machine for one in first if one.value} == {row["machine"] for row in rows if row["value"]}, "a line a machine"


def test_claims_json_and_the_table_have_every_claim(tmp_path):
    judged = judge(data(row()), [CLAIM])
    claims.write(judged, tmp_path)
    told = json.loads((tmp_path / "claims.json").read_text())
    assert told["schema"] == claims.SCHEMA
    assert told["claims"][0]["findings"][0]["ci_low"] == 4.5
