"""Balance of sample production and consumption: when a round may begin, and how many chunks may be under way.

The paper states its strategy in words only; the rule here is this project's own (docs/balance.md). Pure arithmetic on
counts and on times that the caller measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from tianji.speeds import Speeds

Mode = Literal["two-sided", "one-sided", "off"]

TOTALS = ("inserted", "free", "lost", "consumed", "backlog", "starved", "backlog_max")
"""What a successor counts on from."""
CALM_ROUNDS = 32
"""After so many rounds in a row that did not starve, the margin shrinks by one chunk."""


class Balance:
    """The production-consumption rule of one learner and its actors.

    ==========  =====================================================================================
    B           backlog: samples inserted and not yet paid for by training
    O           outstanding: chunks that actors hold credit for, or that are on their way into a replay
    R, m        samples of one round, and of one chunk
    W           the window
    ==========  =====================================================================================

    - Consumption: a round may begin while B >= R. It takes R from the backlog.
    - Production: credit for one more chunk may be given while B + O + m <= W.

    Credit thus never takes B + O beyond W. Let P be the samples inserted, without those that only fill a replay. A round
    trains on `reuse` rows for each of its samples. Then C = reuse * (P - B) rows have been trained on: C / P never exceeds its
    target, and approaches it as 1 / P.

    The window is a bandwidth-delay product, at least a round and what a buffer can hold back, and a margin:

        W / m = max(n * t_produce / t_round, n + b - 1) + margin

    It is at most the slots that there are, and n times the rounds by which a chunk may be behind. But it may always hold what
    is under way when no actor idles, 2 a + n + b - 2: two chunks of each (one in the making, one on its way), n - 1 at the
    learner, b - 1 at the buffer. That is also the first window, before anything is measured.

    The margin grows when the learner waits for samples while credit is withheld (`widen`). It grows at once for an actor that
    has no credit, and by a chunk a round where the learner waits round after round. So nobody waits for a slower actor.

    Parameters
    ----------
    mode
        `two-sided` is the rule; `one-sided` never withholds credit; `off` lets a learner that reuses samples train
        without waiting for any.
    round_chunks, chunk_samples
        n and m.
    reuse
        rows that a round trains on for each of its samples.
    producers
        a.
    slots
        of all actors together.
    batch_chunks
        b: chunks that a buffer gathers before it passes them on.
    lag_rounds
        the most rounds by which a chunk may be behind when it is trained on; None: there is no such bound.
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
        producers: int,
        slots: int,
        batch_chunks: int = 1,
        lag_rounds: int | None = None,
        free_samples: int = 0,
    ) -> None:
        self.mode = mode
        self.round_chunks = round_chunks
        self.chunk_samples = chunk_samples
        self.reuse = reuse
        self.producers = producers
        self.slots = slots
        self.free_samples = free_samples
        self._least = min(slots, round_chunks + batch_chunks - 1)
        self._busy = min(slots, max(self._least, 2 * producers + round_chunks + batch_chunks - 2))
        self._most = slots if lag_rounds is None else min(slots, max(self._busy, round_chunks * lag_rounds))
        self.speeds = Speeds(producers, round_chunks)
        self.margin = 0
        self.inserted = 0
        self.free = 0
        """Samples that filled a replay before it was warm: they are not paid for."""
        self.consumed = 0
        """Rows trained on, repeats included."""
        self.backlog = 0
        self.outstanding = producers * self.first_credit
        """In chunks."""
        self.starved = 0
        """Rounds whose samples the learner waited for while credit was withheld."""
        self.backlog_max = 0
        self.lost = 0
        """Samples inserted before the replay that held them was lost."""
        self._starving = self._starved_before = False
        """Whether the round that comes next, and the one before it, had to wait while credit was withheld."""
        self._calm = 0

    @property
    def first_credit(self) -> int:
        """Chunks that each actor may write before anything was granted: all of them together are within the first window."""
        each = self.slots // self.producers
        return each if self.mode != "two-sided" else max(1, min(each, self.window // self.producers))

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
        self._starved_before, self._starving = self._starving, False
        if self._starved_before:
            self._calm = 0
            self.starved += 1
            return
        self._calm += 1
        if self._calm >= CALM_ROUNDS:
            self._calm, self.margin = 0, max(0, self.margin - 1)

    def end_round(self, rows: int, took_ns: int) -> None:
        """A round ended: it trained on so many rows, and took so long."""
        self.consumed += rows
        self.speeds.trained(took_ns)

    def arrive(self, chunks: int) -> None:
        """Chunks are outstanding no longer: they were inserted, or left unused."""
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

    def may_widen(self, *, idle_actor: bool) -> bool:
        """Whether `widen` is of use, for a learner that waits for samples.

        Parameters
        ----------
        idle_actor
            whether an actor has no credit at all.
        """
        # At the start everybody waits for the first chunks.
        known = self._starving or self.speeds.round_ns is None
        if self.mode != "two-sided" or (known and not idle_actor):
            return False
        return self.window < self._most and not self.may_grant()

    def widen(self, *, idle_actor: bool) -> None:
        """The learner waits for samples while credit is withheld: let more chunks be under way.

        By one at once for an actor that has no credit. Others may have theirs in hand or on its way, which cannot be told
        apart: for them the window grows where the round before had to wait as well.
        """
        self.margin += idle_actor or self._starved_before
        self._starving = True

    @property
    def window(self) -> int:
        """W / m: chunks in the backlog and outstanding together."""
        produce, train = self.speeds.chunk_ns, self.speeds.round_ns
        base = self._busy
        if produce is not None and train:
            base = max(math.ceil(self.round_chunks * produce / train), self._least)
        return min(base + self.margin, self._most)

    def lag_rounds(self) -> int | None:
        """Rounds by which a chunk may be behind as speeds are: see `Speeds.lag_rounds`; None before all are known."""
        rounds = self.speeds.lag_rounds()
        # A chunk ages by one more round for each that is trained on before its turn comes. What lies here beyond the window is
        # no reason for a wider bound: only where no credit is withheld can there be so much.
        queued = min(self.backlog, self.window * self.chunk_samples)
        return None if rounds is None else rounds + max(0, queued - 1) // self.round_samples

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
