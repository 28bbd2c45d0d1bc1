"""The ledger of claims: every claim of the literature once, verdicts by the rule, nothing left out."""

import json
from types import SimpleNamespace

import pytest

from reports import claims
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
    "htsrl": None,
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


def test_a_claim_is_held_against_its_first_reading_and_shows_the_others():
    (judged,) = judge(data(row(), row(baseline="sb3", value=0.8, ci_low=0.7, ci_high=0.9)), [CLAIM])
    assert judged.verdict == "holds in analogue"
    assert [(f.reading, f.verdict) for f in judged.evidence] == [("first", "holds in analogue"), ("second", "contradicted")]
    assert judged.evidence[0].measured == "5.00x [4.50, 5.50], n = 5"
    assert judged.evidence[0].machine == "2 cores of a processor"
    (on_its_hardware,) = judge(data(row(), cores=64), [CLAIM])
    assert on_its_hardware.verdict == "reproduced"


def test_what_was_not_measured_says_what_it_would_take():
    (judged,) = judge(data(), [CLAIM])
    assert (judged.verdict, judged.needs) == ("not measured here", "a larger machine")


def test_tianji_as_published_stands_beside_tianji_where_it_was_run():
    (judged,) = judge(data(row(), row(system="tianji-as-published", value=2.0, ci_low=1.8, ci_high=2.2)), [CLAIM])
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
    (judged,) = judge(data(*rows), [CLAIM])
    assert judged.verdict == expected
    first = [one for one in judged.evidence if one.reading == "first"]
    assert {one.machine for one in first if one.value} == {row["machine"] for row in rows if row["value"]}, "a line a machine"
    if sum(one.value is not None for one in first) > 1:
        assert all(reading.endswith(("processor", "server", "laptop")) for reading, _ in judged.told)


def test_claims_json_and_the_table_have_every_claim(tmp_path):
    judged = judge(data(row()), [CLAIM])
    claims.write(judged, tmp_path)
    told = json.loads((tmp_path / "claims.json").read_text())
    assert told["schema"] == claims.SCHEMA
    assert told["claims"][0]["findings"][0]["ci_low"] == 4.5
    assert list(claims.table(judged)["Verdict"]) == ["+ holds in analogue"]
