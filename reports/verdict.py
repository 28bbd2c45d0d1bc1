"""The one place where a report says who is faster: the declared questions, answered from all runs that are of them.

A question is one family: one ratio an opponent, Holm over the opponents. docs/reports.md says what each word means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import pandas as pd
from msgspec import Struct
from scipy.special import ndtri

from reports.dataset import Dataset
from reports.estimate import Ratio, Term, combined, paired, term
from reports.tables import counted, how_many, with_interval
from suites.statistics.families import ERROR, holm

QUESTIONS = Path(__file__).parent / "questions.toml"
SERIES = ("crossings", "staleness-crossings")
"""Series with a line a run."""
CUT = 0.9
"""Share of its budget of steps below which the clock ended a run; a last round may be missing from any."""
TUNED = "division = open, tuned = True"
"""Options of runs with settings that a tuning chose."""
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
    marked: dict[str, str] = {}
    """Opponents that are another algorithm by these settings, and why. A mark takes nothing away: they stay in the family."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What is known of one opponent."""

    question: Question
    opponent: str
    title: str
    ratio: Ratio | None
    """Time of the opponent over ours. None: they never met, or nobody reached a return."""
    terms: dict[str, Term]
    """By workload."""
    missing: tuple[str, ...]
    """Workloads of the question without a pair, or without a success of either."""
    looks: int
    """Sessions of a workload, at most: each is a look."""
    p: float | None = None
    """After Holm."""
    word: Word = "not measured"
    more: int | None = None
    """Blocks that each workload lacks, where more would decide."""
    cut: str = ""
    """Runs that the clock ended before their budget of steps, by workload."""

    @property
    def mark(self) -> str | None:
        """Why the opponent is another algorithm; None where it is not."""
        return self.question.marked.get(self.opponent)

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
        told = [
            f"{name}: {one.ours[0]}/{one.ours[1]} runs of TianJi, {one.theirs[0]}/{one.theirs[1]} of it reached the return"
            for name, one in missed.items()
        ]
        return "; ".join([*told, self.cut] if self.cut else told)

    @property
    def blocks(self) -> str:
        """Pairs of each workload as text: `18 + 5`."""
        return " + ".join(str(one.pairs) for one in self.terms.values()) or "0"


class _File(Struct, forbid_unknown_fields=True):
    question: tuple[Question, ...]


def questions(path: Path = QUESTIONS) -> tuple[Question, ...]:
    """The declared questions."""
    return msgspec.toml.decode(path.read_bytes(), type=_File).question


def runs(data: Dataset, options: str = "") -> pd.DataFrame:
    """All runs of some options, a line each and return; without options, of the closed division.

    Columns `machine`, `workload`, `session`, `block`, `system`, `threshold_kind`, `seconds`, `measured_s` and `measured_steps`.
    """
    columns = ["machine", "workload", "session", "block", "system", "threshold_kind", "seconds", "measured_s", "measured_steps"]
    found = [data.series[name] for name in SERIES]
    columns += ["loop"] if all("loop" in one for one in found if len(one)) else []
    every = pd.concat([one[one["options"] == options][columns] for one in found if len(one)] or [pd.DataFrame(columns=columns)])
    return every.reset_index(drop=True)


def verdicts(data: Dataset, asked: Sequence[Question] | None = None) -> list[Verdict]:
    """Answers to all declared questions of which anything was measured, in their order."""
    every = runs(data)
    every = every[every["threshold_kind"] == KINDS[0]]
    titles = {b.manifest.system: b.manifest.system_title.replace("|", "/") for b in data.bundles}
    return [one for question in asked or questions() for one in _answered(data, question, every, titles)]


def _answered(data: Dataset, question: Question, every: pd.DataFrame, titles: dict[str, str]) -> list[Verdict]:
    cut = _cut(data, every)
    found = []
    for opponent in question.opponents:
        pairs = {name: paired(every[every["workload"] == name], question.ours, opponent) for name in question.workloads}
        if not any(len(own) for own in pairs.values()):
            continue
        newest = {name: own[_series(data, name, own["session"])] for name, own in pairs.items()}
        terms = {name: known for name, own in newest.items() if (known := term(own)) is not None}
        looks = max((one.strata for one in terms.values()), default=1)
        one = Verdict(
            question=question,
            opponent=opponent,
            title=titles[opponent],
            ratio=combined(terms.values(), looks) if terms else None,
            terms=terms,
            missing=tuple(name for name in question.workloads if name not in terms),
            looks=looks,
            cut="; ".join(cut[name, label] for name in terms for label in (question.ours, opponent) if (name, label) in cut),
        )
        found.append(one)
    ps = {one.opponent: one.ratio.p for one in found if one.ratio and one.ratio.p is not None and not one.missing}
    adjusted = dict(zip(ps, holm(list(ps.values())), strict=True))
    return [_judged(msgspec.structs.replace(one, p=adjusted.get(one.opponent))) for one in found]


def _series(data: Dataset, workload: str, sessions: pd.Series[str]) -> pd.Series[bool]:
    """Which of these sessions of a workload are of the newest series that any of them is of."""
    begins = sorted(one.begins for one in data.begun if one.workload == workload)

    def number(session: str) -> int:
        written = data.stated[session].written if session in data.stated else ""
        return sum(written >= one for one in begins)

    numbers = sessions.map(number).astype(int)
    newest: pd.Series[bool] = numbers.eq(numbers.max())
    return newest


def _cut(data: Dataset, every: pd.DataFrame) -> dict[tuple[str, str], str]:
    budgets = {b.manifest.workload: b.manifest.configuration["workload"].get("budget_steps") for b in data.bundles}
    missed = every[every["seconds"].isna()]
    found = {}
    for (workload, system), own in missed.groupby(["workload", "system"]):
        budget = budgets[str(workload)]
        early = own[own["measured_steps"] < CUT * budget] if budget else own[:0]
        if len(early):
            steps = how_many(early["measured_steps"])
            found[str(workload), str(system)] = (
                f"{workload}: the clock ended {counted(len(early), 'run')} of {system} after {steps} of {budget} steps"
            )
    return found


def _judged(one: Verdict) -> Verdict:
    """Turn an estimate into a word. Nothing else in a report does that for a question."""
    ratio, word, more = one.ratio, one.word, None
    if one.missing or ratio is None:
        word = "not measured"
    elif one.p is not None and one.p <= ERROR and ratio.value > 1 and ratio.bound in ("", "at_least"):
        word = "faster"
    elif ratio.high is not None and ratio.high < 1 and ratio.bound in ("", "at_most"):
        word = "slower"
    elif ratio.low is not None and ratio.high is not None and ratio.low >= 1 / SAME and ratio.high <= SAME:
        word = "the same"
    else:
        more = _more(ratio, one.terms, one.looks * len(one.question.opponents))
        word = "not measured enough" if more is not None else "not decidable here"
    return msgspec.structs.replace(one, word=word, more=more)


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
