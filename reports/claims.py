"""The ledger of claims: what was published, what was measured here, and what the one says of the other.

`claims.toml` has the claims and the rows of `summary.json` that stand beside them. Verdicts (docs/reports.md):

- *reproduced*: the whole interval is at or above the published value, on hardware of the claim's kind;
- *holds in analogue*: the same on emulated nodes or a smaller machine;
- *direction holds*: the whole interval is above 1 (of a share: above half of what is claimed), but not at the published value;
- *contradicted*: the whole interval is below 1 (of a share: below half of what is claimed);
- *inconclusive*: neither, or there are too few blocks for an interval;
- *not measured here*: there is no such row; the ledger says what it would take.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pandas as pd
from msgspec import Struct, field

from reports.dataset import Dataset
from reports.table import Row
from reports.words import Words

LEDGER = Path(__file__).parent / "claims.toml"
SCHEMA = "tianji-bench/claims/1"
ClaimVerdict = Literal[
    "reproduced", "holds in analogue", "direction holds", "inconclusive", "contradicted", "not measured here"
]
MARKS: dict[ClaimVerdict, str] = {
    "reproduced": "++",
    "holds in analogue": "+",
    "direction holds": "(+)",
    "inconclusive": "?",
    "contradicted": "-",
    "not measured here": "",
}
"""For those who print in grey; from the strongest to the weakest."""


class Hardware(Struct, frozen=True, forbid_unknown_fields=True):
    """What a machine of a claim's kind has at least."""

    cores: int
    testbeds: tuple[str, ...] = ()
    """On which of them; none named: on any."""


class Reading(Struct, frozen=True, forbid_unknown_fields=True):
    """A way to read a claim: one row of `summary.json`, but for the system."""

    title: str
    row: dict[str, Any]


class Claim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published claim."""

    id: str
    source: str
    says: str
    needs: str
    """What it would take to measure it, or to measure it better."""
    published: float | None = None
    reads_as: float | None = None
    why: str | None = None
    systems: tuple[str, ...] = ("tianji", "tianji-as-published")
    """Whose values stand beside it; the first one's first reading makes the verdict, where there are several machines on the
    one that fits its hardware best."""
    hardware: Hardware | None = None
    reading: tuple[Reading, ...] = ()

    @property
    def value(self) -> float | None:
        """That the sentence stands for."""
        return self.published if self.published is not None else self.reads_as


class Evidence(Struct, frozen=True, kw_only=True):
    """What one reading comes to, of one system on one machine."""

    reading: str
    system: str
    verdict: ClaimVerdict
    value: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int = 0
    measured: str = "-"
    """As it is shown."""
    machine: str | None = None
    own_hardware: bool = False
    """Whether that machine is of the claim's kind."""


class Judged(Struct, frozen=True, kw_only=True):
    """A claim with its verdict."""

    id: str
    source: str
    says: str
    claimed: str
    verdict: ClaimVerdict
    evidence: tuple[Evidence, ...] = field(name="findings")
    needs: str

    @property
    def told(self) -> list[tuple[str, str]]:
        """Reading and measured value, where there is one; with the machine, where there are several."""
        known = [one for one in self.evidence if one.measured != "-"]
        several = len({(one.reading, one.system) for one in known}) < len(known)
        return [(f"{one.reading}, on {one.machine}" if several else one.reading, one.measured) for one in known]


def ledger(path: Path = LEDGER) -> tuple[Claim, ...]:
    """The claims, checked."""

    class File(Struct, forbid_unknown_fields=True):
        claim: tuple[Claim, ...]

    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), File).claim


def judge(data: Dataset, claims: Iterable[Claim] | None = None) -> list[Judged]:
    """Every claim against a dataset, in the order of the ledger."""
    return [_judge(data, claim) for claim in (ledger() if claims is None else claims)]


def _judge(data: Dataset, claim: Claim) -> Judged:
    found = [_evidence(data, claim, reading, system) for system in claim.systems for reading in claim.reading]
    evidence = [one for of_reading in found for one in of_reading]
    return Judged(
        id=claim.id,
        source=claim.source,
        says=claim.says,
        claimed=Words("claims.j2", claim).say("claimed"),
        verdict=_decided(found[0]) if found else "not measured here",
        # A second system that nobody ran is not worth a line; a reading that is missing is.
        evidence=tuple(one for one in evidence if one.system == claim.systems[0] or one.verdict != "not measured here"),
        needs=claim.needs,
    )


def _decided(evidence: Sequence[Evidence]) -> ClaimVerdict:
    """The verdict of one reading on several machines: the weakest on hardware of the claim's kind, or else on any."""
    known = [one for one in evidence if one.measured != "-"]
    own = [one for one in known if one.own_hardware]
    return max((one.verdict for one in own or known or evidence), key=[*MARKS].index)


def _evidence(data: Dataset, claim: Claim, reading: Reading, system: str) -> list[Evidence]:
    """A line a machine; one that says that there is nothing, where it was measured on none."""
    wanted = {"options": None, **reading.row, "system": system}
    found = [data.table.one(machine=machine, **wanted) for machine in data.table.where(**wanted).known("machine")]
    # A row without a value says something where runs did not get there.
    known = [row for row in found if row is not None and (row["value"] is not None or row["censored"])]
    none = Evidence(reading=reading.title, system=system, verdict="not measured here")
    return [_of_row(data, claim, reading, row) for row in known] or [none]


def _of_row(data: Dataset, claim: Claim, reading: Reading, row: Row) -> Evidence:
    where = f"{row['nodes']} emulated nodes on " if row["testbed"] == "netns" and (row["nodes"] or 1) > 1 else ""
    kind, cores = claim.hardware, data.environments[row["machine"]]["cpu_usable"]
    own = kind is not None and cores >= kind.cores and (not kind.testbeds or row["testbed"] in kind.testbeds)
    share = claim.published is None
    return Evidence(
        reading=reading.title,
        system=row["system"],
        verdict=verdict(row["ci_low"], row["ci_high"], claim.value, share=share, own_hardware=own),
        value=row["value"],
        ci_low=row["ci_low"],
        ci_high=row["ci_high"],
        n=row["n"],
        measured=Words("claims.j2", claim).say("measured", row),
        machine=f"{where}{row['machine']}",
        own_hardware=own,
    )


def verdict(low: float | None, high: float | None, claimed: float | None, *, share: bool, own_hardware: bool) -> ClaimVerdict:
    """What an interval says of a claimed value.

    Parameters
    ----------
    share
        whether the value is a share of a ceiling, of which half of what is claimed is the least that counts as its direction.
    """
    if low is None or high is None or claimed is None:
        return "inconclusive"
    turning = claimed / 2 if share else 1.0
    if low >= claimed:
        return "reproduced" if own_hardware else "holds in analogue"
    if low > turning:
        return "direction holds"
    return "contradicted" if high < turning else "inconclusive"


def table(judged: Sequence[Judged]) -> pd.DataFrame:
    """A line a claim: what is claimed, the verdict, and the readings that were measured."""
    return pd.DataFrame(
        {
            "Claim": claim.says,
            "Source": claim.source,
            "Claimed": claim.claimed,
            "Verdict": f"{MARKS[claim.verdict]} {claim.verdict}".strip(),
            "Measured here": "; ".join(f"{reading}: {measured}" for reading, measured in claim.told) or "-",
        }
        for claim in judged
    )


def write(judged: Sequence[Judged], out: Path) -> None:
    """Write `claims.json`."""
    told = {"schema": SCHEMA, "claims": judged}
    (out / "claims.json").write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
