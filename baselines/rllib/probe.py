"""Records finished episodes inside RLlib's env runners, stamped when they end.

RLlib's own `episode_return_mean` is a smoothed figure (it read 500 where the mean of the last 100 episodes was 110),
so episodes are counted here as they are in every other system. Each env runner appends to a file of its own.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ray.rllib.callbacks.callbacks import RLlibCallback

DIRECTORY = "TIANJI_BENCH_PROBE"
"""Environment variable that names the folder; Ray's workers inherit it."""

RECORD = struct.Struct("<qdqq")
"""Monotonic ns, return, length, steps of this env runner."""


class EpisodeProbe(RLlibCallback):
    """One an env runner."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0
        self._returned: dict[str, tuple[float, int]] = {}
        path = Path(os.environ[DIRECTORY]) / f"runner-{os.getpid()}.bin"
        self._file = path.open("ab", buffering=0)

    def on_episode_end(self, *, episode: Any, prev_episode_chunks: Any = None, **_: Any) -> None:
        """An episode that began in an earlier fragment comes in pieces; its return is their sum."""
        at = time.monotonic_ns()
        pieces = [*(prev_episode_chunks or ()), episode]
        total = sum(float(piece.get_return()) for piece in pieces)
        length = sum(len(piece) for piece in pieces)
        self._file.write(RECORD.pack(at, total, length, self._steps))

    def on_sample_end(self, *, samples: Any, **_: Any) -> None:
        """A fragment is complete: its real transitions count (reset rows are none)."""
        self._steps += sum(len(piece) for piece in samples)


def read(directory: Path) -> Iterator[tuple[int, float, int, int]]:
    """All records of all env runners, in order of time: (ns, return, length, steps of all runners)."""
    records = []
    for path in directory.glob("runner-*.bin"):
        data = path.read_bytes()
        whole = len(data) - len(data) % RECORD.size
        records += [(record, path.name) for record in RECORD.iter_unpack(data[:whole])]
    steps: dict[str, int] = {}
    for (at, value, length, own), name in sorted(records):
        steps[name] = own
        yield at, value, length, sum(steps.values())
