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
from msgspec import Struct

from reports.dataset import Dataset
from reports.tables import number, with_interval
from suites.records import machine

LEDGER = Path(__file__).parent / "claims.toml"
SCHEMA = "tianji-bench/claims/1"
Verdict = Literal["reproduced", "holds in analogue", "direction holds", "inconclusive", "contradicted", "not measured here"]
MARKS: dict[Verdict, str] = {
    "reproduced": "++",
    "holds in analogue": "+",
    "direction holds": "(+)",
    "inconclusive": "?",
    "contradicted": "-",
    "not measured here": "",
}
"""For those who print in grey."""


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
    """Whose values stand beside it; the first one's first reading makes the verdict."""
    hardware: Hardware | None = None
    reading: tuple[Reading, ...] = ()

    @property
    def value(self) -> float | None:
        """That the sentence stands for."""
        return self.published if self.published is not None else self.reads_as


class Finding(Struct, frozen=True, kw_only=True):
    """What one reading comes to, of one system."""

    reading: str
    system: str
    verdict: Verdict
    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int
    measured: str
    """As it is shown."""
    machine: str | None


class Judged(Struct, frozen=True, kw_only=True):
    """A claim with its verdict."""

    id: str
    source: str
    says: str
    claimed: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    needs: str


def ledger(path: Path = LEDGER) -> tuple[Claim, ...]:
    """The claims, checked."""

    class File(Struct, forbid_unknown_fields=True):
        claim: tuple[Claim, ...]

    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), File).claim


def judge(data: Dataset, claims: Iterable[Claim] | None = None) -> list[Judged]:
    """Every claim against a dataset, in the order of the ledger."""
    return [_judge(data, claim) for claim in (ledger() if claims is None else claims)]


def _judge(data: Dataset, claim: Claim) -> Judged:
    findings = [_find(data, claim, reading, system) for system in claim.systems for reading in claim.reading]
    told = findings[0].verdict if findings else "not measured here"
    return Judged(
        id=claim.id,
        source=claim.source,
        says=claim.says,
        claimed=_claimed(claim),
        verdict=told,
        # A second system that nobody ran is not worth a line; a reading that is missing is.
        findings=tuple(f for f in findings if f.system == claim.systems[0] or f.verdict != "not measured here"),
        needs=claim.needs,
    )


def _claimed(claim: Claim) -> str:
    if claim.published is not None:
        return f"{number(claim.published)}x"
    return "no figure" if claim.reads_as is None else f"no figure; read as {number(claim.reads_as)} ({claim.why})"


def _find(data: Dataset, claim: Claim, reading: Reading, system: str) -> Finding:
    row = row_of(data.rows, {**reading.row, "system": system})
    if row is None or row["value"] is None:
        censored = (
            ""
            if row is None or not row["censored"]
            else f"{row['censored']} of {row['n'] + row['censored']} pairs did not get there"
        )
        return Finding(
            reading=reading.title,
            system=system,
            verdict="not measured here" if not censored else "inconclusive",
            value=None,
            ci_low=None,
            ci_high=None,
            n=0,
            measured=censored or "-",
            machine=None,
        )
    cores, machine = machine_of(data, row)
    kind = claim.hardware
    own = kind is not None and cores >= kind.cores and (not kind.testbeds or row["testbed"] in kind.testbeds)
    unit = "x" if claim.published is not None else ""
    high = row["ci_high"]
    short = f"; all of it below {number(claim.value)}{unit}" if high is not None and claim.value and high < claim.value else ""
    more = f"; {row['censored']} pairs left out, in which one or both did not get there" if row["censored"] else ""
    return Finding(
        reading=reading.title,
        system=system,
        verdict=verdict(row["ci_low"], row["ci_high"], claim.value, share=claim.published is None, own_hardware=own),
        value=row["value"],
        ci_low=row["ci_low"],
        ci_high=row["ci_high"],
        n=row["n"],
        measured=f"{with_interval(row, unit)}, n = {row['n']}{short}{more}",
        machine=machine,
    )


def verdict(low: float | None, high: float | None, claimed: float | None, *, share: bool, own_hardware: bool) -> Verdict:
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


def row_of(rows: Iterable[dict[str, Any]], wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The one row that has all this; None: there is none.

    Raises
    ------
    ValueError
        when there are several: the reading does not say which.
    """
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    if len(found) > 1:
        raise ValueError(f"{len(found)} rows of summary.json answer to {wanted}: the ledger must say which")
    return found[0] if found else None


def machine_of(data: Dataset, row: dict[str, Any]) -> tuple[int, str]:
    """Cores of the machine on which a row was measured (a dataset has one for each workload), and what to call it."""
    runs = (b.manifest for b in data.bundles if (b.manifest.suite, b.manifest.workload) == (row["suite"], row["workload"]))
    measured_on = next(runs).environment
    where = f"{row['nodes']} emulated nodes on " if row["testbed"] == "netns" and (row["nodes"] or 1) > 1 else ""
    return int(measured_on["cpu_usable"]), f"{where}{machine.name(measured_on)}"


def table(judged: Sequence[Judged]) -> pd.DataFrame:
    """A line a claim: what is claimed, the verdict, and the readings that were measured."""
    return pd.DataFrame(
        {
            "Claim": claim.says,
            "Source": claim.source,
            "Claimed": claim.claimed,
            "Verdict": f"{MARKS[claim.verdict]} {claim.verdict}".strip(),
            "Measured here": "; ".join(f"{f.reading}: {f.measured}" for f in claim.findings if f.measured != "-") or "-",
        }
        for claim in judged
    )


def write(judged: Sequence[Judged], out: Path) -> None:
    """Write `claims.json`."""
    told = {"schema": SCHEMA, "claims": judged}
    (out / "claims.json").write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
