"""What work takes on a machine, as measured: the file format, and the times that the simulated world draws from it.

Durations are kept as distributions, because a barrier waits for the slowest, and a mean does not tell how slow that is. A file
is JSON, and reading it runs no code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from programs.cli import ConfigError
from tianji.config import TrainConfig
from tianji.environments import delays
from tianji.run_folder import read_json, write_json
from tianji.simulation.machines import Machine
from tianji.telemetry import BINS_AN_OCTAVE, Histogram

SCHEMA = 1
DECK = 1024
"""Most durations that are drawn before the same ones are drawn again, in another order."""

PROBES, MOST_PROBED = 128, 8
"""Fragments and actors from which the mean of stated waits is computed."""


class Durations(Struct, frozen=True, forbid_unknown_fields=True):
    """A distribution of durations: logarithmic bins, and the exact count and sum."""

    count: int
    sum_s: float
    bins: Histogram
    """Counts by bin, `tianji.telemetry.bin_of(nanoseconds)`."""

    def __post_init__(self) -> None:
        if self.count < 1 or min(self.bins.values(), default=0) < 1 or sum(self.bins.values()) != self.count:
            raise ValueError("a distribution needs durations, as many as its bins hold")
        if not (0 <= self.sum_s < math.inf) or not all(0 <= number < 64 * BINS_AN_OCTAVE for number in self.bins):
            raise ValueError("durations are finite and not negative")

    @property
    def mean_s(self) -> float:
        """Mean in seconds."""
        return self.sum_s / self.count

    def deck(self) -> NDArray[np.float64]:
        """Durations in seconds, in order, as many of each bin as were recorded and with the exact mean.

        Of more than `DECK` durations it has evenly spaced quantiles.
        """
        bins = sorted(self.bins)
        centres = np.exp2((np.array(bins) + 0.5) / BINS_AN_OCTAVE)
        upto = np.cumsum([self.bins[number] for number in bins])
        size = min(self.count, DECK)
        values = centres[np.searchsorted(upto, (np.arange(size) + 0.5) * (self.count / size), side="right")]
        return np.asarray(values * (self.mean_s / values.mean()))


class Fragment(Struct, frozen=True, forbid_unknown_fields=True):
    """What a fragment of a rollout takes."""

    steps: int
    """T, steps of each environment."""
    environments: int
    """B, environments of an actor."""
    compute: Durations
    """Of a core."""
    wait: Durations | None = None
    """For the simulator, without a core. None: it does not wait."""


class Round(Struct, frozen=True, forbid_unknown_fields=True):
    """What a learner's round of updates takes."""

    samples: int
    """Samples of the round, each counted once."""
    compute: Durations
    """Of a core, without the wait that a configuration states."""
    reuse: float | None = None
    """Rows trained on for each sample, such as the epochs of PPO. None: not known."""


class Work(Struct, frozen=True, forbid_unknown_fields=True):
    """What the work of one workload takes."""

    env: str
    fragments: tuple[Fragment, ...]
    rounds: tuple[Round, ...]
    parameters: int
    """Size of the network."""
    mean: Durations | None = None
    """Of a Root's mean, for each model in it. None: not measured."""
    adoption: Durations | None = None
    """Of a learner's adoption of a mean. None: not measured."""
    loops_per_s: float | None = None
    """Speed of a core by a bare loop while all cores count, mean of before and after the work was measured. None: not known."""

    def __post_init__(self) -> None:
        sizes = [self.parameters, *(r.samples for r in self.rounds), *(min(f.steps, f.environments) for f in self.fragments)]
        if any(one.reuse is not None and not 0 < one.reuse < math.inf for one in self.rounds):
            raise ValueError("rows trained on for each sample are above 0")
        if not self.fragments or not self.rounds or min(sizes) < 1:
            raise ValueError("work has fragments and rounds, and sizes of at least 1")
        if self.loops_per_s is not None and not 0 < self.loops_per_s < math.inf:
            raise ValueError("a bare loop runs more than 0 times a second")


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """A machine, and what work takes on it."""

    machine: Machine
    measured_on: str
    """Hardware and versions, in words."""
    work: dict[str, Work]
    """By workload."""
    notes: tuple[str, ...] = ()
    """What was not measured, and why."""
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        machine = self.machine
        speeds = machine.cores, machine.copy_bytes_per_s, machine.link_bytes_per_s
        waits = (
            machine.period_seconds,
            machine.wake_seconds,
            machine.hop_seconds,
            machine.message_seconds,
            machine.latency_seconds,
        )
        if not (min(speeds) > 0 and 0 <= min(waits) <= max(waits) < math.inf):
            raise ValueError("a machine has cores and speeds above 0, and times that are finite and not negative")

    def of(self, workload: str) -> Work:
        """Work of a workload, or of an environment if no workload has this name. `ConfigError` names those that there are."""
        for work in (self.work.get(workload), *self.work.values()):
            if work is not None and (work is self.work.get(workload) or work.env == workload):
                return work
        raise ConfigError(f"{workload} was not calibrated; calibrated: {', '.join(self.work) or 'nothing'}")

    def save(self, path: Path) -> None:
        """Write it to a file, atomically."""
        write_json(path, msgspec.to_builtins(self, str_keys=True))


def load(path: Path) -> Calibration:
    """Read a calibration from a file. `ConfigError` says in one line what is wrong with it."""
    data = read_json(path, "`python -m suites calibrate` writes one")
    if isinstance(data, dict) and data.get("schema", SCHEMA) != SCHEMA:
        raise ConfigError(f"{path}: schema {data['schema']!r}, and this version reads {SCHEMA}; calibrate again")
    try:
        return msgspec.convert(data, Calibration, strict=True, str_keys=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: not a calibration: {error}") from None


class Drawn:
    """Times of work, drawn from measured distributions (`Times`).

    Each actor and each learner has a stream of its own: the recorded durations in random order, again and again. Sizes that
    were not measured are scaled from the nearest: fragments by steps and environments, and rounds by samples and by reuse.
    The wait for a simulator with stated delays follows from the configuration, so that each actor keeps its speed. It is scaled
    to the measured mean, because resets and late timers take time too.

    Raises
    ------
    ConfigError
        if the workload was not calibrated, or has groups and no means were measured.
    """

    def __init__(self, calibration: Calibration, workload: str, config: TrainConfig, seed: int) -> None:
        work = calibration.of(workload)
        if config.groups > 1 and (work.mean is None or work.adoption is None):
            raise ConfigError(f"{workload} was calibrated without means of models; calibrate again")
        self._seed = seed
        self._streams: dict[tuple[int, int], Iterator[float]] = {}
        self._mean, self._adoption = work.mean, work.adoption
        rows = config.fragment_steps * config.envs_per_actor
        fragment = min(work.fragments, key=lambda one: abs(math.log(one.environments / config.envs_per_actor)))
        self._compute = fragment.compute
        self._longer = rows / (fragment.steps * fragment.environments)
        self._wait, self._waits_longer = fragment.wait, config.fragment_steps / fragment.steps
        self._stated = None if config.simulator is None else StatedWaits(config)
        self._beyond = 1.0 if self._stated is None or fragment.wait is None else beyond(config, fragment, fragment.wait)
        self._rounds, self._reuse = work.rounds, config.reuse

    def fragment(self, actor: int) -> tuple[float, float]:
        compute_s = self._longer * self._draw(0, actor, self._compute)
        if self._stated is not None:
            return compute_s, self._beyond * self._stated.fragment(actor)
        return compute_s, 0.0 if self._wait is None else self._waits_longer * self._draw(1, actor, self._wait)

    def round(self, group: int, samples: int) -> float:
        if not samples:
            return 0.0
        nearest = min(self._rounds, key=lambda one: abs(math.log(one.samples / samples)))
        more = 1.0 if nearest.reuse is None else self._reuse / nearest.reuse
        return more * samples / nearest.samples * self._draw(4 + self._rounds.index(nearest), group, nearest.compute)

    def mean(self, groups: int) -> float:
        # A learner that adopts asks with 1, and a Root of one group does nothing else.
        kind, found = (2, self._adoption) if groups == 1 else (3, self._mean)
        return 0.0 if found is None else groups * self._draw(kind, 0, found)

    def _draw(self, kind: int, number: int, durations: Durations) -> float:
        stream = self._streams.get((kind, number))
        if stream is None:
            rng = np.random.default_rng([self._seed, kind, number])
            stream = self._streams[kind, number] = _shuffled(durations.deck(), rng)
        return next(stream)


class StatedWaits:
    """Waits for simulators as a configuration states them: at each step for the slowest environment of an actor.

    Resets are left out.

    Parameters
    ----------
    actors, environments
        so many actors with so many environments each; None: as the configuration says.
    """

    def __init__(self, config: TrainConfig, actors: int | None = None, environments: int | None = None) -> None:
        simulator = config.simulator
        if simulator is None:
            raise ConfigError("waits are stated by workloads with `simulator`")
        self._steps, width = config.fragment_steps, environments or config.envs_per_actor
        numbers = range((actors or config.groups * config.actors) * width)
        seeds = np.random.SeedSequence(config.seed).spawn(len(numbers))
        waits = [
            delays.times(simulator, delays.scale(simulator, n) * simulator.step_seconds, np.random.default_rng(seed))
            for n, seed in zip(numbers, seeds, strict=True)
        ]
        self._of: Sequence[Sequence[Iterator[float]]] = [waits[n : n + width] for n in range(0, len(waits), width)]

    def fragment(self, actor: int) -> float:
        """Seconds of a fragment of an actor."""
        return sum(max(next(one) for one in self._of[actor]) for _ in range(self._steps)) / 1e9


def beyond(config: TrainConfig, fragment: Fragment, wait: Durations) -> float:
    """Ratio of the measured mean wait for simulators to the stated one, for fragments like those that were measured."""
    actors = min(MOST_PROBED, config.groups * config.actors)
    stated = StatedWaits(config, actors, fragment.environments)
    mean_s = sum(stated.fragment(n % actors) for n in range(PROBES)) / PROBES
    return wait.mean_s * config.fragment_steps / fragment.steps / mean_s if mean_s else 1.0


def _shuffled(deck: NDArray[np.float64], rng: np.random.Generator) -> Iterator[float]:
    while True:
        # Thousands of actors have one each, so they stay arrays.
        yield from map(float, rng.permutation(deck))
