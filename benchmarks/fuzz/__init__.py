"""Fuzzing of inputs: every input must be accepted or refused in one line.

A kind of input is a module of `KINDS` with two functions. `mutate(rng)` makes a case, which is bytes. `check(case)` says
whether it was accepted or refused, and raises on any other result. Cases that once failed are kept in `corpus/`.
"""

from __future__ import annotations

import importlib
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from suites.records import limits

KINDS = {name: f"benchmarks.fuzz.{name}" for name in ("bundles", "reports", "policies", "runs", "frames")}
"""Module of each kind of input, by name."""
CORPUS = Path(__file__).parent / "corpus"
MEMORY_BYTES = 512 << 20
"""Memory limit of a case in bytes."""

Verdict = Literal["accepted", "refused"]


class Kind(Protocol):
    """A module of `KINDS`."""

    LIMIT_S: float
    """Time limit of a case in seconds."""

    def mutate(self, rng: random.Random) -> bytes: ...

    def check(self, case: bytes) -> Verdict: ...


class Wrong(Exception):
    """A case that should have been refused was accepted, or refused in another way than it should have been."""


class Hung(BaseException):
    """A case took too long; nothing that is tried may catch it."""


def kind(name: str) -> Kind:
    """The module of a kind."""
    return cast(Kind, importlib.import_module(KINDS[name]))


def kept(name: str) -> list[Path]:
    """Cases of a kind that once failed."""
    return sorted((CORPUS / name).glob("*"))


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Context that raises `Hung` after `seconds`, and then restores the earlier timer."""

    def hung(*_: Any) -> None:
        raise Hung(f"not done in {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, hung)
    start, (left, every) = time.monotonic(), signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, max(0.001, left - (time.monotonic() - start)) if left else 0.0, every)
        signal.signal(signal.SIGALRM, handler)


def tried(of: Kind, case: bytes) -> Verdict:
    """Verdict on a case.

    Raises
    ------
    Exception
        any exception of a case that fails, also `Wrong` and `Hung`.
    """
    with _within(of.LIMIT_S), limits.memory(MEMORY_BYTES):
        return of.check(case)


def run(name: str, count: int, seed: int, failures: Path | None = None) -> tuple[Counter[str], list[str]]:
    """Try the kept cases and `count` new ones. Returns the count of each result, and the failures.

    Parameters
    ----------
    failures
        where cases that failed are written.
    """
    of, counts, told = kind(name), Counter[str](), []
    known = kept(name)
    for number in range(-len(known), count):
        case = known[number].read_bytes() if number < 0 else of.mutate(random.Random(f"{name} {seed} {number}"))
        try:
            came: str = tried(of, case)
        except (Exception, Hung) as error:
            came = {Wrong: "wrong", Hung: "hung"}.get(type(error), "crashed")
            what = known[number].name if number < 0 else f"{seed}-{number}"
            told.append(f"{came}: {what}: {type(error).__name__}: {error}")
            if failures is not None:
                failures.mkdir(parents=True, exist_ok=True)
                (failures / f"{came}-{seed}-{number}").write_bytes(case)
        counts[came] += 1
    return counts, told
