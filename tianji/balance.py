"""Balance between sample production and consumption: who may go on, who waits, and for how long that has to be.

The paper states its strategy in words only; the rule here is this project's own (docs/balance.md). Pure arithmetic on
counts and on times that the caller measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

Mode = Literal["two-sided", "one-sided", "off"]

TOTALS = ("inserted", "free", "lost", "consumed", "backlog", "starved", "backlog_max")
"""What a successor counts on from."""
CALM_ROUNDS = 32
"""After so many rounds in a row in which the learner was not starved, the margin shrinks by one chunk."""


class Smoothed:
    """A running mean in which the latest measurement weighs an eighth, as TCP smooths its round trips (RFC 6298)."""

    def __init__(self) -> None:
        self.mean: float | None = None

    def see(self, value: float) -> None:
        """Take in one measurement."""
        self.mean = value if self.mean is None else self.mean + (value - self.mean) / 8


class Balance:
    """The production-consumption rule of one learner and its actors.

    With B the *backlog*, samples inserted and not yet paid for by training, O the samples *outstanding*, for which actors
    hold credit, R the samples of one round and m those of one chunk:

    - a round may begin while B >= R (it takes R from the backlog);
    - credit for one more chunk may be given while B + O + m <= W, the window.

    So 0 <= B <= W at all times, and with P samples inserted (but for those that only fill a replay), of each of which a
    round makes `reuse` rows to train on, C = reuse * (P - B) rows have been trained on: C / P lies within reuse * W / P
    below its target, and never above it.

    The window is a bandwidth-delay product: chunks that have to be under way while the learner trains on one round, n,
    times the share of that time that making one takes, at least one round, and a margin that grows by one chunk when
    the learner starved although credit was withheld:

        W / m = max(n, ceil(n * t_produce / t_round)) + margin

    It is never less than what `batch_chunks` on the way can hold back, nor more than the slots that there are, nor than n
    times the rounds by which a chunk may be behind: what is made behind W / n rounds of others would be that old when its
    turn comes.

    Parameters
    ----------
    mode
        `two-sided` is the rule; `one-sided` never withholds credit; `off` lets a learner that reuses samples train
        without waiting for any.
    round_chunks, chunk_samples
        n and m.
    reuse
        rows that a round trains on for each of its samples.
    slots
        of all actors together.
    batch_chunks
        that a buffer gathers before it passes them on.
    lag_rounds
        by which a chunk may be behind when it is trained on; None: there is no such bound.
    free_samples
        inserted before training begins (a replay that fills), which are not paid for.
    """

    def __init__(
        self,
        mode: Mode,
        *,
        round_chunks: int,
        chunk_samples: int,
        reuse: float,
        slots: int,
        batch_chunks: int = 1,
        lag_rounds: int | None = None,
        free_samples: int = 0,
    ) -> None:
        self.mode = mode
        self.round_chunks = round_chunks
        self.chunk_samples = chunk_samples
        self.reuse = reuse
        self.slots = slots
        self.free_samples = free_samples
        self._least = round_chunks + batch_chunks - 1
        self._most = slots if lag_rounds is None else min(slots, max(self._least, round_chunks * lag_rounds))
        self.produced = Smoothed()
        """Nanoseconds that a chunk took its producer."""
        self.trained = Smoothed()
        """Nanoseconds that a round took the learner."""
        self.margin = 0
        self.inserted = 0
        self.free = 0
        """Samples that filled a replay before it was warm: they are not paid for."""
        self.consumed = 0
        """Rows trained on, repeats included."""
        self.backlog = 0
        self.outstanding = slots
        """Chunks that actors hold credit for: at first every slot is theirs."""
        self.starved = 0
        self.backlog_max = 0
        self.lost = 0
        """Samples inserted before the replay that held them was lost."""
        self._calm = 0

    @property
    def round_samples(self) -> int:
        return self.round_chunks * self.chunk_samples

    @property
    def warm(self) -> bool:
        """Whether training may begin."""
        there = self.inserted - self.lost
        return there > 0 and there >= self.free_samples

    def state(self) -> dict[str, Any]:
        """Totals, as JSON can hold them; what is under way is of no use to a successor."""
        return {name: getattr(self, name) for name in TOTALS}

    def restore(self, state: Mapping[str, Any], *, kept: bool) -> None:
        """Count on from what `state` gave.

        Parameters
        ----------
        kept
            whether what was inserted is still there: of a replay that was stored. Otherwise it was inserted for nothing as
            far as it was not paid for, and a replay has to fill again.
        """
        for name, value in state.items():
            setattr(self, name, value)
        if not kept:
            self.inserted -= self.backlog
            self.backlog = 0
            self.lost = self.inserted

    def insert(self, samples: int) -> None:
        """Samples came in."""
        self.inserted += samples
        if not self.warm:
            self.free += samples
            return
        self.backlog += samples
        self.backlog_max = max(self.backlog_max, self.backlog)

    def withdraw(self, samples: int) -> None:
        """Samples that were inserted left again, unused."""
        self.inserted -= samples
        self.backlog -= samples

    def may_train(self) -> bool:
        """Whether a round may begin."""
        return self.warm and (self.mode == "off" or self.backlog >= self.round_samples)

    def begin_round(self) -> None:
        """A round begins: it takes its samples from the backlog."""
        self.backlog = max(0, self.backlog - self.round_samples) if self.mode == "off" else self.backlog - self.round_samples

    def end_round(self, rows: int, took_ns: int, *, withheld: int) -> None:
        """A round ended.

        Parameters
        ----------
        rows
            trained on.
        took_ns
            how long it took.
        withheld
            chunks that there are slots for and no credit was given for.
        """
        self.consumed += rows
        self.trained.see(took_ns)
        if withheld and not self.may_train():
            self.starved += 1
            self._calm = 0
            self.margin = min(self.margin + 1, self._most)
            return
        self._calm += 1
        if self._calm >= CALM_ROUNDS:
            self._calm, self.margin = 0, max(0, self.margin - 1)

    def arrive(self, chunks: int) -> None:
        """Chunks came in."""
        self.outstanding = max(0, self.outstanding - chunks)

    def recount(self, chunks: int) -> None:
        """What was outstanding changed by so many chunks without anybody sending or granting one: a process ended."""
        self.outstanding += chunks

    def grant(self, chunks: int = 1) -> None:
        """Credit is given."""
        self.outstanding += chunks

    def may_grant(self) -> bool:
        """Whether credit for one more chunk may be given."""
        if self.mode != "two-sided":
            return True
        m = self.chunk_samples
        return self.backlog + (self.outstanding + 1) * m <= self.window * m

    @property
    def window(self) -> int:
        """W / m: chunks in the backlog and outstanding together."""
        produce, train = self.produced.mean, self.trained.mean
        if produce is None or not train:
            return self._most
        wanted = max(self.round_chunks, math.ceil(self.round_chunks * produce / train)) + self.margin
        return min(max(wanted, self._least), self._most)

    def counters(self) -> dict[str, float]:
        """Totals, in the suite's metric names."""
        due = self.inserted - self.free
        return {
            "samples_inserted": float(self.inserted),
            "samples_consumed": float(self.consumed),
            "consumption_ratio": self.consumed / due if due else 0.0,
            "consumption_ratio_target": self.reuse,
            "backlog_max_samples": float(self.backlog_max),
            "window_chunks": float(self.window),
            "rounds_starved": float(self.starved),
        }
