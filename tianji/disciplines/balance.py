"""Balance of sample production and consumption: when a round may begin, and how many chunks may be in flight.

The paper states its strategy in words only, so the rule here is this project's own (docs/disciplines.md). It is pure arithmetic
on counts and on times that the caller measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from tianji.disciplines.speeds import Speeds

Mode = Literal["two-sided", "one-sided", "off"]

TOTALS = ("inserted", "free", "lost", "consumed", "backlog", "starved", "backlog_max")
"""Counts that are stored, and that a restarted learner continues."""
CALM_ROUNDS = 32
"""Number of rounds in a row without starvation after which the margin shrinks by one chunk."""


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

    So credit never takes B + O beyond W. Let P be the samples inserted, without those that only fill a replay. A round trains
    on `reuse` rows per sample. Then C = reuse * (P - B) rows have been trained on. C / P never exceeds its target, and
    approaches it as 1 / P.

    The window is a bandwidth-delay product plus a margin. It holds at least a round and what a buffer can hold back:

        W / m = max(n * t_produce / t_round, n + b - 1) + margin

    It is at most the number of slots, and at most n times the bound on staleness in rounds. But it may always hold
    2 a + n + b - 2 chunks, the number in flight when no actor idles. These are two chunks per actor (one being filled, one
    being sent), n - 1 at the learner and b - 1 at the buffer. This is also the first window, before anything is measured.

    The margin grows when the learner waits for samples while credit is withheld (`widen`). It grows at once for an actor
    without credit, and by one chunk per round if the learner waits in successive rounds. So no actor slows down the others.

    Parameters
    ----------
    mode
        `two-sided` is the rule. `one-sided` never withholds credit. `off` also lets a learner with a replay train without
        waiting for samples.
    round_chunks, chunk_samples
        n, the chunks of one round, and m, the samples of one chunk.
    reuse
        rows that a round trains on, per sample of the round.
    producers
        a, the number of actors.
    slots
        number of slots of all actors together.
    batch_chunks
        b: chunks that a buffer gathers before it passes them on.
    lag_rounds
        bound on staleness: the most rounds by which a chunk may be behind when it is trained on. None: no bound.
    free_samples
        samples that fill a replay before training begins, and that are not paid for.
    """

    most_each: int | None = None
    """Most credit that one actor is given, in chunks; None: any."""

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
        self.speeds = Speeds(producers, round_chunks, bounds=lag_rounds is not None)
        self.margin = 0
        self.inserted = 0
        self.free = 0
        """Samples that filled a replay before training began. They are not paid for."""
        self.consumed = 0
        """Rows trained on, repeats included."""
        self.backlog = 0
        self.outstanding = producers * self.first_credit
        """Outstanding chunks, O."""
        self.starved = 0
        """Rounds for whose samples the learner waited while credit was withheld."""
        self.backlog_max = 0
        self.lost = 0
        """Samples inserted before the replay that held them was lost."""
        self._starving = self._starved_before = False
        """Whether the next round, and the one before it, had to wait while credit was withheld."""
        self._calm = 0

    @property
    def first_credit(self) -> int:
        """Chunks that each actor may write before the first grant. Together they fit into the first window."""
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
        """Totals as plain data. Chunks in flight are left out, because a restarted learner does not get them."""
        return {name: getattr(self, name) for name in TOTALS}

    def restore(self, state: Mapping[str, Any], *, kept: bool) -> None:
        """Continue the counts that `state` returned.

        Parameters
        ----------
        kept
            whether the inserted samples still exist, because the replay was stored. If not, unpaid samples are lost, and a
            replay has to fill again.
        """
        for name, value in state.items():
            setattr(self, name, value)
        if not kept:
            self.inserted -= self.backlog
            self.backlog = 0
            self.lost = self.inserted

    def insert(self, samples: int) -> None:
        """Count samples that arrived."""
        self.inserted += samples
        if not self.warm:
            self.free += samples
            return
        self.backlog += samples
        self.backlog_max = max(self.backlog_max, self.backlog)

    def withdraw(self, samples: int) -> None:
        """Count inserted samples that were removed unused."""
        self.inserted -= samples
        self.backlog -= samples

    def may_train(self) -> bool:
        """Whether a round may begin."""
        return self.warm and (self.mode == "off" or self.backlog >= self.round_samples)

    def begin_round(self, samples: int | None = None) -> None:
        """Begin a round, which takes its samples from the backlog: as many as are usual, or this number."""
        taken = self.round_samples if samples is None else samples
        self.backlog = max(0, self.backlog - taken) if self.mode == "off" else self.backlog - taken
        self._starved_before, self._starving = self._starving, False
        if self._starved_before:
            self._calm = 0
            self.starved += 1
            return
        self._calm += 1
        if self._calm >= CALM_ROUNDS:
            self._calm, self.margin = 0, max(0, self.margin - 1)

    def end_round(self, rows: int, took_ns: int) -> None:
        """End a round that trained on `rows` rows and took `took_ns` nanoseconds."""
        self.consumed += rows
        self.speeds.trained(took_ns)

    def arrive(self, chunks: int) -> None:
        """Count chunks that are no longer outstanding, because they were inserted or dropped."""
        self.outstanding = max(0, self.outstanding - chunks)

    def recount(self, chunks: int) -> None:
        """Change the number of outstanding chunks after a process ended, by which chunks or credit were lost."""
        self.outstanding += chunks

    def grant(self, chunks: int = 1) -> None:
        """Count credit that is given."""
        self.outstanding += chunks

    def may_grant(self) -> bool:
        """Whether credit for one more chunk may be given."""
        if self.mode != "two-sided":
            return True
        m = self.chunk_samples
        return self.backlog + (self.outstanding + 1) * m <= self.window * m

    def may_widen(self, *, idle_actor: bool) -> bool:
        """Whether `widen` would help a learner that waits for samples.

        Parameters
        ----------
        idle_actor
            whether an actor has no credit at all.
        """
        # At the start the learner waits for the first chunks in any case.
        known = self._starving or self.speeds.round_ns is None
        if self.mode != "two-sided" or (known and not idle_actor):
            return False
        return self.window < self._most and not self.may_grant()

    def widen(self, *, idle_actor: bool) -> None:
        """Allow more chunks in flight, because the learner waits for samples while credit is withheld.

        The window grows by one at once for an actor without credit. Other actors may be filling a chunk or sending it, which
        cannot be told apart. For them the window grows only if the round before had to wait as well.
        """
        self.margin += idle_actor or self._starved_before
        self._starving = True

    @property
    def window(self) -> int:
        """The window in chunks, W / m: the most chunks in the backlog and outstanding."""
        produce, train = self.speeds.chunk_ns, self.speeds.round_ns
        base = self._busy
        if produce is not None and train:
            base = max(math.ceil(self.round_chunks * produce / train), self._least)
        return min(base + self.margin, self._most)

    def lag_rounds(self) -> int | None:
        """Bound on staleness in rounds at the measured speeds; see `Speeds.lag_rounds`. None before all are known."""
        rounds = self.speeds.lag_rounds()
        # A chunk ages by one round for each round that is trained on before its own. A backlog beyond the window is no reason
        # for a wider bound: it only occurs if no credit is withheld.
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
