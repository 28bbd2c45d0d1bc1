"""Adds rounds to a comparison until the rule has decided, and keeps what was measured after each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from suites.statistics import comparison as record
from suites.statistics import gate
from suites.statistics.comparison import Comparison


def until_decided(
    one_more: Callable[[int, Comparison | None], Comparison],
    rule: gate.Rule,
    folder: Path,
    say: Callable[[str], object],
) -> Comparison:
    """Measure rounds until the rule has decided.

    Parameters
    ----------
    one_more
        given the number of a round and the comparison before it (None at first), measures the round and returns the comparison
        with it.
    folder
        gets the record after each round.
    say
        is told the state after each look.
    """
    found: Comparison | None = None
    for number in range(rule.looks[-1]):
        found = one_more(number, found)
        record.write(found, folder)
        verdicts, used, over = gate.decide(found.worsenings(), found.better, rule)
        if used == number + 1:
            say(f"{used} rounds: {state(verdicts)}")
        if over:
            break
    assert found is not None
    return found


def state(verdicts: Mapping[str, gate.Judgement]) -> str:
    """Where a comparison stands, in a few words."""
    worse = [name for name, verdict in verdicts.items() if verdict.kind == "worse"]
    if worse:
        return f"worse: {', '.join(worse)}"
    undecided = [name for name, verdict in verdicts.items() if verdict.kind == "inconclusive"]
    return f"not decided yet: {', '.join(undecided)}" if undecided else "nothing is worse"
