"""Records finished episodes inside RLlib's env runners, stamped when they end.

RLlib's own `episode_return_mean` is smoothed: it showed 500 when the mean of the last 100 episodes was 110. So episodes are
counted here, as in every other system. Each env runner keeps its records and hands them over on request, through RLlib's own
calls to env runners. So this works wherever they run.
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
    """Records that an env runner hands over."""

    now_ns: int
    """Time of its clock at the hand-over."""
    records: bytes


class EpisodeProbe(RLlibCallback):
    """One an env runner."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0
        self._records = bytearray()

    def on_environment_created(self, *, env_runner: Any, **_: Any) -> None:
        """Register the probe for `hand_over`."""
        env_runner.episode_probe = self

    def on_episode_end(self, *, episode: Any, prev_episode_chunks: Any = None, **_: Any) -> None:
        """An episode that began in an earlier fragment comes in pieces; its return is their sum.

        A learner in this process has added a row without a reward to earlier pieces, which is no step.
        """
        at = time.monotonic_ns()
        # An environment whose rewards are normalised tells its own return.
        told = episode.get_infos(-1).get("episode")
        pieces = [*(prev_episode_chunks or ()), episode]
        total = float(told["r"]) if told else sum(float(piece.get_return()) for piece in pieces)
        self._records += RECORD.pack(at, total, episode.t, self._steps)

    def on_sample_end(self, *, samples: Any, **_: Any) -> None:
        """A fragment is complete: its real transitions count (reset rows are none)."""
        self._steps += sum(len(piece) for piece in samples)

    def handed(self) -> Handed:
        """All since it was asked before."""
        records, self._records = bytes(self._records), bytearray()
        return Handed(time.monotonic_ns(), records)


def hand_over(env_runner: Any) -> Handed:
    """Records of an env runner's probe since the last call. It runs in the env runner's process."""
    probe: EpisodeProbe = env_runner.episode_probe
    return probe.handed()


def on_our_clock(handed: Handed, asked_ns: int, answered_ns: int) -> Handed:
    """Records with times converted to this host's clock, by the times of one question and its answer.

    If an env runner's clock lay between the two, it is on this host and its times are kept. Times of another host are shifted
    as if it had answered half-way. The error is at most half the time between question and answer, plus the drift of the
    clocks.

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
