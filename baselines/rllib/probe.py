"""Records finished episodes inside RLlib's env runners, stamped when they end.

RLlib's own `episode_return_mean` is a smoothed figure (it read 500 where the mean of the last 100 episodes was 110),
so episodes are counted here as they are in every other system. Each env runner keeps what it saw and hands it over when it
is asked to, the way RLlib itself asks its env runners for something: so it makes no difference where they are.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ray.rllib.callbacks.callbacks import RLlibCallback

RECORD = struct.Struct("<qdqq")
"""Monotonic ns of this env runner's host, return, length, steps of this env runner."""


@dataclass(frozen=True)
class Handed:
    """What an env runner hands over."""

    now_ns: int
    """What its clock says meanwhile."""
    records: bytes


class EpisodeProbe(RLlibCallback):
    """One an env runner."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0
        self._records = bytearray()

    def on_environment_created(self, *, env_runner: Any, **_: Any) -> None:
        """From here on `hand_over` finds it."""
        env_runner.episode_probe = self

    def on_episode_end(self, *, episode: Any, prev_episode_chunks: Any = None, **_: Any) -> None:
        """An episode that began in an earlier fragment comes in pieces; its return is their sum."""
        at = time.monotonic_ns()
        pieces = [*(prev_episode_chunks or ()), episode]
        total = sum(float(piece.get_return()) for piece in pieces)
        length = sum(len(piece) for piece in pieces)
        self._records += RECORD.pack(at, total, length, self._steps)

    def on_sample_end(self, *, samples: Any, **_: Any) -> None:
        """A fragment is complete: its real transitions count (reset rows are none)."""
        self._steps += sum(len(piece) for piece in samples)

    def handed(self) -> Handed:
        """All since it was asked before."""
        records, self._records = bytes(self._records), bytearray()
        return Handed(time.monotonic_ns(), records)


def hand_over(env_runner: Any) -> Handed:
    """What an env runner's probe has recorded since it was asked before, asked for where the env runner is."""
    probe: EpisodeProbe = env_runner.episode_probe
    return probe.handed()


def on_our_clock(handed: Handed, asked_ns: int, answered_ns: int) -> Handed:
    """The same with times of this host's clock, as far as one question and its answer tell.

    An env runner whose clock lay between the two is taken to have this very clock, and its stamps are kept as they are:
    that is so on one host. Another host's are moved as if it had answered half-way; that is off by half of the time
    between the two at most, and by what the clocks have drifted apart during the run.

    Parameters
    ----------
    asked_ns, answered_ns
        monotonic nanoseconds here, before the question and after the answer.
    """
    if asked_ns <= handed.now_ns <= answered_ns:
        return handed
    shift = (asked_ns + answered_ns) // 2 - handed.now_ns
    moved = (RECORD.pack(at + shift, *rest) for at, *rest in RECORD.iter_unpack(handed.records))
    return replace(handed, records=b"".join(moved))


def merged(handed: Sequence[Handed], steps: dict[int, int]) -> Iterator[tuple[int, float, int, int]]:
    """All records of all env runners, in order of time: (ns, return, length, steps of all runners).

    Parameters
    ----------
    steps
        of each env runner, as far as it handed over before; it is brought up to date.
    """
    records = [(record, runner) for runner, one in enumerate(handed) for record in RECORD.iter_unpack(one.records)]
    for (at, value, length, own), runner in sorted(records):
        steps[runner] = own
        yield at, value, length, sum(steps.values())
