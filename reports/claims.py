"""The ledger of claims: what was published, what was measured here, and what the one says of the other.

`claims.toml` has the claims and the rows of `summary.json` that stand beside them. Verdicts (docs/reports.md):

- *reproduced*: the whole interval is at or above the published value, on hardware of the claim's kind;
- *holds in analogue*: the same on emulated nodes or a smaller machine;
- *direction holds*: the whole interval is above 1 (of a share: above half of what is claimed), but not at the published value;
- *contradicted*: the whole interval is below 1 (of a share: below half of what is claimed);
- *inconclusive*: neither, or there are too few blocks for an interval;
- *not measured here*: there is no such row; the ledger says what it would take.

Every reading must hold, so the worst one decides. A reading that stands `beside` a claim does not decide: it is of a system
made of the claimed system's own code. It is told in one sentence with the verdict. The ledger is a family: what speaks for a
claim is judged by an interval widened for the number of claims that were measured (Bonferroni). What speaks against it needs
no more than its 95 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from reports.dataset import Dataset
from reports.pairs import SAME_CODE
from reports.table import Row
from reports.tables import with_interval
from reports.words import Words
from suites.scaling.ratios import impossible
from suites.statistics.crossings import RATIO, RESTRICTED
from suites.statistics.families import widened

LEDGER = Path(__file__).parent / "claims.toml"
SCHEMA = "tianji-bench/claims/1"
ClaimVerdict = Literal[
    "reproduced", "holds in analogue", "direction holds", "inconclusive", "contradicted", "not measured here"
]
VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)
"""From the strongest to the weakest."""


class Hardware(Struct, frozen=True, forbid_unknown_fields=True):
    """What a machine of a claim's kind has at least."""

    cores: int
    testbeds: tuple[str, ...] = ()
    """On which of them; none named: on any."""


class Reading(Struct, frozen=True, forbid_unknown_fields=True):
    """A way to read a claim: one row of `summary.json`, but for the system."""

    title: str
    row: dict[str, Any]
    beside: str | None = None
    """Short name of a reading of a system of the same code, which does not decide and is told with the verdict."""
    against: tuple[str, ...] = ()
    """Baselines of the row: the reading is one against each of them, with the title of each after its own. None: the row's."""


class Claim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published claim."""

    id: str
    source: str
    says: str
    needs: str
    """What it would take to measure it, or to measure it better."""
    front: str | None = None
    """As the first page tells it; None: it does not."""
    published: float | None = None
    reads_as: float | None = None
    why: str | None = None
    systems: tuple[str, ...] = ("tianji", "tianji-as-published")
    """Whose values stand beside it; the first one's worst reading makes the verdict, where there are several machines on the
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
    corrected_low: float | None = None
    """Lower end of the interval, widened for the number of claims; the verdict is by it."""
    n: int = 0
    measured: str = "-"
    machine: str | None = None
    own_hardware: bool = False
    """Whether that machine is of the claim's kind."""
    beside: str | None = None
    steelman: bool = False
    """Whether a system in it is one that others published, rebuilt on TianJi's kernels."""


class Judged(Struct, frozen=True, kw_only=True):
    """A claim with its verdict."""

    id: str
    source: str
    says: str
    claimed: str
    verdict: ClaimVerdict
    evidence: tuple[Evidence, ...] = field(name="findings")
    needs: str
    share: bool = False
    """Whether it is of a share of a ceiling."""
    front: str | None = None

    @property
    def steelman(self) -> bool:
        """Whether every reading is of a system that others published, rebuilt on TianJi's kernels."""
        known = [one for one in self.evidence if one.measured != "-" and one.beside is None]
        return bool(known) and all(one.steelman for one in known)

    @property
    def said(self) -> str:
        """The verdict, whether it is of a rebuilt system, and what stands beside it."""
        own = f"{self.verdict} (steelman)" if self.steelman else self.verdict
        beside = ", ".join(f"{one.beside} {with_interval(msgspec.structs.asdict(one), 'x')}" for one in self.beside)
        return f"{own}; against systems of the same code, which do not decide: {beside}" if beside else own

    @property
    def beside(self) -> list[Evidence]:
        return [one for one in self.evidence if one.beside is not None and one.value is not None]


def ledger(path: Path = LEDGER) -> tuple[Claim, ...]:
    """The claims, checked."""

    class File(Struct, forbid_unknown_fields=True):
        claim: tuple[Claim, ...]

    found = msgspec.toml.decode(path.read_bytes(), type=File).claim
    return tuple(replace(claim, reading=tuple(one for reading in claim.reading for one in _each(reading))) for claim in found)


def _each(reading: Reading) -> list[Reading]:
    """A reading against each of its baselines."""
    named = [(f"{reading.title}, against {baseline}", reading.row | {"baseline": baseline}) for baseline in reading.against]
    return [Reading(title, row, reading.beside) for title, row in named] or [reading]


def judge(data: Dataset, claims: Iterable[Claim] | None = None) -> list[Judged]:
    """Every claim against a dataset, in the order of the ledger."""
    claims = ledger() if claims is None else tuple(claims)
    measured = sum(any(_rows(data, reading, claim.systems[0]) for reading in claim.reading) for claim in claims)
    return [_judge(data, claim, max(1, measured)) for claim in claims]


def _judge(data: Dataset, claim: Claim, family: int) -> Judged:
    found = [_evidence(data, claim, reading, system, family) for system in claim.systems for reading in claim.reading]
    return Judged(
        id=claim.id,
        source=claim.source,
        says=claim.says,
        claimed=Words("claims.j2", claim).say("claimed"),
        verdict=_worst([_decided(own) for reading, own in zip(claim.reading, found, strict=False) if reading.beside is None]),
        # A second system that nobody ran is not worth a line; a reading that is missing is.
        evidence=tuple(
            one
            for of_reading in found
            for one in of_reading
            if one.system == claim.systems[0] or one.verdict != "not measured here"
        ),
        needs=claim.needs,
        share=claim.published is None,
        front=claim.front,
    )


def _worst(verdicts: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """The verdict of several readings, all of which must hold: one that is missing leaves open what the others say."""
    known = [one for one in verdicts if one != "not measured here"]
    if not known:
        return "not measured here"
    missing: list[ClaimVerdict] = ["inconclusive"] if len(known) < len(verdicts) else []
    return max([*known, *missing], key=VERDICTS.index)


def _decided(evidence: Sequence[Evidence]) -> ClaimVerdict:
    """The verdict of one reading on several machines: the weakest on hardware of the claim's kind, or else on any."""
    known = [one for one in evidence if one.measured != "-"]
    own = [one for one in known if one.own_hardware]
    return max((one.verdict for one in own or known or evidence), key=VERDICTS.index)


def _rows(data: Dataset, reading: Reading, system: str) -> list[Row]:
    """The rows of a reading by machine. A row without a value says something where runs did not get there."""
    wanted = {"options": None, **reading.row, "system": system}
    found = [data.table.one(machine=machine, **wanted) for machine in data.table.where(**wanted).known("machine")]
    return [row for row in found if row is not None and (row["value"] is not None or row["censored"])]


def _evidence(data: Dataset, claim: Claim, reading: Reading, system: str, family: int) -> list[Evidence]:
    """A line a machine; one that says that there is nothing, where it was measured on none."""
    none = Evidence(reading=reading.title, system=system, verdict="not measured here", beside=reading.beside)
    return [_of_row(data, claim, reading, row, family) for row in _rows(data, reading, system)] or [none]


def _of_row(data: Dataset, claim: Claim, reading: Reading, row: Row, family: int) -> Evidence:
    where = f"{row['nodes']} emulated nodes on " if row["testbed"] == "netns" and (row["nodes"] or 1) > 1 else ""
    kind, cores = claim.hardware, data.environments[row["machine"]]["cpu_usable"]
    own = kind is not None and cores >= kind.cores and (not kind.testbeds or row["testbed"] in kind.testbeds)
    leading, fault, steelman = _leading(data, row), impossible(row), {row["system"], row["baseline"]} & set(SAME_CODE)
    low = _corrected(leading, family)
    return Evidence(
        reading=reading.title,
        system=row["system"],
        verdict=_of_leading(leading, low, claim, own_hardware=own, fault=fault),
        value=leading["value"],
        ci_low=leading["ci_low"],
        ci_high=leading["ci_high"],
        corrected_low=low,
        n=leading["n"],
        measured=Words("claims.j2", claim).say("measured", row, leading, fault, bool(steelman)),
        machine=f"{where}{row['machine']}",
        own_hardware=own,
        beside=reading.beside,
        steelman=bool(steelman),
    )


def _leading(data: Dataset, row: Row) -> Row:
    """The row that decides: where a side missed the target, the ratio of restricted means, which counts every block."""
    if row["metric"] != RATIO or not row["censored"]:
        return row
    keys = ("suite", "workload", "system", "baseline", "machine", "options", "nodes", "scaling", "testbed", "threshold_kind")
    return data.table.one(metric=RESTRICTED, **{key: row[key] for key in keys if key in row}) or row


def _corrected(row: Row, family: int) -> float | None:
    low = row["ci_low"]
    return None if low is None else widened(row["value"], low, row["ci_high"], row["n"], family)[0]


def _of_leading(row: Row, low: float | None, claim: Claim, *, own_hardware: bool, fault: bool) -> ClaimVerdict:
    if low is not None and fault and row["ci_low"] > row["nodes"]:
        # Nothing of what cannot be speaks for a claim.
        return "inconclusive"
    return verdict(low, row["ci_high"], claim.value, share=claim.published is None, own_hardware=own_hardware)


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


def write(judged: Sequence[Judged], out: Path) -> None:
    """Write `claims.json`."""
    told = {"schema": SCHEMA, "claims": judged}
    (out / "claims.json").write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
