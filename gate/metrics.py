"""What a command measured: lines of JSON on its standard output, a file of pytest-benchmark, or the time that it took."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from gate.execution import CommandFailed, Finished
from suites.records import limits
from suites.records.limits import BundleError, Text
from suites.statistics.gate import Better

OUTPUT_BYTES = 16 << 20
"""Standard output of one run, or file of pytest-benchmark, that is read at most."""
MOST_METRICS = 1000
WALL_CLOCK = "wall-clock time"
SMALLEST, LARGEST = 1e-15, 1e15
"""Bounds of a value; `suites.records.limits.Number` has the upper one."""

MetricName = Annotated[Text, Meta(min_length=1)]


class Value(Struct, frozen=True, forbid_unknown_fields=True):
    """A value of a metric, as a command prints it."""

    metric: MetricName
    value: float
    better: Better
    unit: Text = ""


class Source:
    """How values are read after a run; this one reads lines of JSON from standard output."""

    wanted = 'lines on standard output like {"metric": "latency", "value": 1.23, "unit": "s", "better": "lower"}'
    """What a command without metrics should have given."""

    def before(self, folder: Path) -> None:
        """Prepare the working directory for a run."""

    def read(self, name: str, done: Finished, folder: Path) -> dict[str, Value]:
        """Values of a run by metric; the median where a metric has several.

        Raises
        ------
        CommandFailed
            for a value that has no ratio, and a line or a file that cannot be read.
        """
        found: dict[str, list[Value]] = {}
        for value in self.values(name, done, folder):
            if not SMALLEST <= value.value <= LARGEST:
                bounds = f"above 0 (from {SMALLEST:g} to {LARGEST:g})"
                raise CommandFailed(f"{name}: {value.metric!r} is {value.value:g}: ratios need values {bounds}")
            known = found.setdefault(value.metric, [])
            if known and (known[0].unit, known[0].better) != (value.unit, value.better):
                raise CommandFailed(f"{name}: {value.metric!r} has two units or two directions")
            known.append(value)
            if len(found) > MOST_METRICS:
                raise CommandFailed(f"{name}: has more than {MOST_METRICS} metrics")
        if not found:
            raise CommandFailed(f"{name}: no metrics; expected {self.wanted}")
        return {
            metric: msgspec.structs.replace(values[0], value=statistics.median(value.value for value in values))
            for metric, values in found.items()
        }

    def values(self, name: str, done: Finished, folder: Path) -> Iterable[Value]:
        """Every value of a run, in order."""
        try:
            lines = limits.contents(done.stdout, OUTPUT_BYTES).splitlines()
        except BundleError as error:
            raise CommandFailed(f"{name}: {error}") from error
        for number, line in enumerate(lines, 1):
            # A cheap look first: other output may be long.
            if not line.lstrip().startswith(b"{") or b'"metric"' not in line:
                continue
            try:
                if not isinstance(told := msgspec.json.decode(line), dict) or "metric" not in told:
                    continue
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            try:
                yield msgspec.convert(told, Value)
            except msgspec.ValidationError as error:
                raise CommandFailed(
                    f"{name}: line {number} of its output is no metric: {error}; expected {self.wanted}"
                ) from None


class WallClock(Source):
    """The wall-clock time of the command is the only metric."""

    def values(self, name: str, done: Finished, folder: Path) -> Iterable[Value]:
        yield Value(WALL_CLOCK, done.seconds, "lower", "s")


class _Stats(Struct):
    median: float


class _Benchmark(Struct):
    fullname: MetricName
    stats: _Stats


class _Document(Struct):
    benchmarks: list[_Benchmark]


class PytestBenchmark(Source):
    """A file that pytest-benchmark wrote; the median of each benchmark's rounds is its value.

    Not the minimum. That falls as pytest-benchmark fits more rounds into its time, whatever the speed, and it misses what slows
    only some rounds down. It would help against disturbances, but these meet both revisions here.

    Parameters
    ----------
    file
        path below the working directory.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.wanted = f"benchmarks in {file}: add --benchmark-json={file} to the command"

    def before(self, folder: Path) -> None:
        # A file of an earlier run must not count again.
        (folder / self._file).unlink(missing_ok=True)

    def values(self, name: str, done: Finished, folder: Path) -> Iterable[Value]:
        file = folder / self._file
        if not os.path.lexists(file):
            raise CommandFailed(f"{name}: wrote no {self._file}: add --benchmark-json={self._file} to the command")
        try:
            told = msgspec.json.decode(limits.contents(file, OUTPUT_BYTES), type=_Document)
        except (BundleError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CommandFailed(f"{name}: {self._file} is no file of pytest-benchmark: {error}") from error
        for benchmark in told.benchmarks:
            yield Value(benchmark.fullname, benchmark.stats.median, "lower", "s")
