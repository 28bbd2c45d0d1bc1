"""The one place where a report says who is faster: the declared questions, answered from all runs that are of them.

A question is one family: one ratio an opponent, Holm over the opponents. docs/reports.md says what each word means.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import pandas as pd
from msgspec import Struct
from scipy.special import ndtri

from reports.dataset import Dataset
from reports.estimate import Ratio, Term, combined, paired, term
from reports.tables import counted, with_interval
from suites.statistics.families import ERROR, holm

QUESTIONS = Path(__file__).parent / "questions.toml"
SERIES = ("crossings", "staleness-crossings")
"""Series with a line a run."""
SAME = 1.05
"""Ratios from its reciprocal to it are no difference that matters."""
POWER = 0.8
MOST_BLOCKS = 200
KINDS = ("training", "evaluated")
"""Definitions of a return; verdicts are of the first, as in the paper."""
Word = Literal["faster", "slower", "the same", "not measured", "not measured enough", "not decidable here"]


class Question(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question, as it is declared."""

    id: str
    asks: str
    algorithm: str
    workloads: tuple[str, ...]
    opponents: tuple[str, ...]
    ours: str = "tianji"
    division: Literal["closed"] = "closed"


class Verdict(Struct, frozen=True, kw_only=True):
    """What is known of one opponent."""

    question: Question
    opponent: str
    title: str
    kind: str
    """Of the return."""
    word: Word
    ratio: Ratio | None
    """Time of the opponent over ours. None: they never met, or nobody reached a return."""
    p: float | None
    """After Holm."""
    terms: dict[str, Term]
    """By workload."""
    missing: tuple[str, ...]
    """Workloads of the question without a pair, or without a success of either."""
    more: int | None
    """Blocks that each workload lacks, where more would decide."""
    looks: int
    """Sessions of a workload, at most: each is a look."""

    @property
    def said(self) -> str:
        """The verdict as text: `not measured enough: 12 more blocks`."""
        if self.missing:
            return f"{self.word}: {', '.join(self.missing)}"
        if self.more is not None:
            return f"{self.word}: {counted(self.more, 'more block')}"
        return self.word

    @property
    def figure(self) -> str:
        """The ratio with its interval as text; `> 3.2x` where the other system never reached the return."""
        if self.ratio is None:
            return "-"
        sign = {"at_least": "> ", "at_most": "< ", "open": "about "}.get(self.ratio.bound, "")
        row = {"value": self.ratio.value, "ci_low": self.ratio.low, "ci_high": self.ratio.high}
        return sign + with_interval(row, "x")

    @property
    def reached(self) -> str:
        """How many runs of either side reached the return, by workload, where any missed it; else empty."""
        missed = {name: one for name, one in self.terms.items() if one.missed}
        return "; ".join(
            f"{name}: {one.ours[0]}/{one.ours[1]} runs of TianJi, {one.theirs[0]}/{one.theirs[1]} of it reached the return"
            for name, one in missed.items()
        )

    @property
    def blocks(self) -> str:
        """Pairs of each workload as text: `18 + 5`."""
        return " + ".join(str(one.pairs) for one in self.terms.values()) or "0"


class _File(Struct, forbid_unknown_fields=True):
    question: tuple[Question, ...]


def questions(path: Path = QUESTIONS) -> tuple[Question, ...]:
    """The declared questions."""
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File).question


def runs(data: Dataset) -> pd.DataFrame:
    """All runs of the closed division with the settings of their workload, a line each and return.

    Columns `machine`, `workload`, `session`, `block`, `system`, `threshold_kind`, `seconds` and `measured_s`.
    """
    columns = ["machine", "workload", "session", "block", "system", "threshold_kind", "seconds", "measured_s"]
    found = [data.series[name] for name in SERIES]
    every = pd.concat([one[one["options"] == ""][columns] for one in found if len(one)] or [pd.DataFrame(columns=columns)])
    return every.reset_index(drop=True)


def verdicts(data: Dataset, kind: str = KINDS[0], asked: Sequence[Question] | None = None) -> list[Verdict]:
    """Answers to all declared questions of which anything was measured, in their order."""
    every = runs(data)
    every = every[every["threshold_kind"] == kind]
    titles = {b.manifest.system: b.manifest.system_title.replace("|", "/") for b in data.bundles}
    return [one for question in asked or questions() for one in _answered(question, every, titles, kind)]


def _answered(question: Question, every: pd.DataFrame, titles: dict[str, str], kind: str) -> list[Verdict]:
    met: dict[str, dict[str, pd.DataFrame]] = {}
    for opponent in question.opponents:
        pairs = {name: paired(every[every["workload"] == name], question.ours, opponent) for name in question.workloads}
        if any(len(own) for own in pairs.values()):
            met[opponent] = pairs
    found = []
    for opponent, pairs in met.items():
        terms = {name: one for name, own in pairs.items() if (one := term(own)) is not None}
        looks = max((one.strata for one in terms.values()), default=1)
        ratio = combined(terms.values(), looks) if terms else None
        missing = tuple(name for name in question.workloads if name not in terms)
        found.append((opponent, ratio, terms, missing, looks))
    whole = [(opponent, ratio.p) for opponent, ratio, _, missing, _ in found if ratio and ratio.p is not None and not missing]
    adjusted = dict(zip([opponent for opponent, _ in whole], holm([p for _, p in whole]), strict=True))
    return [
        _judged(question, opponent, titles[opponent], kind, ratio, adjusted.get(opponent), terms, missing, looks)
        for opponent, ratio, terms, missing, looks in found
    ]


def _judged(
    question: Question,
    opponent: str,
    title: str,
    kind: str,
    ratio: Ratio | None,
    p: float | None,
    terms: dict[str, Term],
    missing: tuple[str, ...],
    looks: int,
) -> Verdict:
    """Turn an estimate into a word. Nothing else in a report does that for a question."""
    word: Word
    more: int | None = None
    if missing or ratio is None:
        word = "not measured"
    elif p is not None and p <= ERROR and ratio.value > 1 and ratio.bound in ("", "at_least"):
        word = "faster"
    elif ratio.high is not None and ratio.high < 1 and ratio.bound in ("", "at_most"):
        word = "slower"
    elif ratio.low is not None and ratio.high is not None and ratio.low >= 1 / SAME and ratio.high <= SAME:
        word = "the same"
    else:
        more = _more(ratio, terms, looks * len(question.opponents))
        word = "not measured enough" if more is not None else "not decidable here"
    return Verdict(
        question=question,
        opponent=opponent,
        title=title,
        kind=kind,
        word=word,
        ratio=ratio,
        p=p,
        terms=terms,
        missing=missing,
        more=more,
        looks=looks,
    )


def _more(ratio: Ratio, terms: dict[str, Term], tests: int) -> int | None:
    """Blocks that each workload lacks to show such a ratio with `POWER`; None: more than `MOST_BLOCKS` in all.

    It is a rough guide: the error is taken to fall with the number of blocks, also where sessions differ among themselves.

    Parameters
    ----------
    tests
        by how many the error is divided: opponents of the question times looks.
    """
    fewest = min(one.pairs for one in terms.values())
    if math.isnan(ratio.error):
        # Nothing is known of the scatter below this many.
        return max(1, 5 - fewest)
    distance = abs(math.log(ratio.value))
    if distance == 0:
        return None
    wanted = (float(ndtri(1 - ERROR / tests / 2) + ndtri(POWER)) * ratio.error / distance) ** 2
    needed = math.ceil(fewest * wanted)
    return None if needed > MOST_BLOCKS else max(1, needed - fewest)
