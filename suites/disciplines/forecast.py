"""Predicts throughput and age under a discipline, in the simulated world.

The roles run with the delays that a configuration states, on a machine that takes no time itself. So a prediction needs no
measurement, and can be stated before one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from programs.cli import ConfigError
from tianji.config import TrainConfig
from tianji.environments.actions import Actions
from tianji.environments.description import EnvDescription
from tianji.roles.learner import Learner
from tianji.simulation.calibration import StatedWaits
from tianji.simulation.world import Simulation

ROUNDS = 400
"""Rounds of a prediction. The first quarter is left out, as in the suite."""


class Stated:
    """Times of work as a configuration states them: waits of simulators, and of the learner."""

    def __init__(self, config: TrainConfig) -> None:
        self._waits, self._round_s = StatedWaits(config), config.update_seconds

    def fragment(self, actor: int) -> tuple[float, float]:
        return 0.0, self._waits.fragment(actor)

    def round(self, group: int, samples: int) -> float:
        return self._round_s

    def mean(self, models: int) -> float:
        return 0.0


@dataclass(frozen=True)
class Prediction:
    """What a discipline gives."""

    steps_per_s: float
    """Samples trained on, each counted once."""
    age_rounds: float
    """Mean number of rounds by which the learner is ahead of a sample's policy when it trains on it."""


def predicted(config: TrainConfig, rounds: int | None = None) -> Prediction:
    """Run a configuration in the simulated world until each learner had `rounds` rounds, by default `ROUNDS`.

    Raises
    ------
    ConfigError
        if its simulators or its learner do not wait.
    """
    if config.simulator is None or not config.update_seconds:
        raise ConfigError("a prediction needs a workload with `simulator` and `update_seconds`")
    endless = replace(config, stop_steps=1 << 50)
    # The sizes of messages do not matter, as they take no time.
    run = Simulation(endless, EnvDescription(config.env, (1,), "<f4", 0, Actions.of(2)), Stated(config))
    roles = [process.host(name).role for name, process in run.processes.items()]
    learners = [role for role in roles if isinstance(role, Learner)]
    began, rounds = (0.0, 0.0, 0.0), rounds or ROUNDS
    for quarter in range(4):
        while min(learner.rounds for learner in learners) < rounds * (quarter + 1) / 4:
            run.run(config.update_seconds)
        if quarter == 0:
            began = _so_far(run, learners)
    seconds, samples, aged = (now - before for now, before in zip(_so_far(run, learners), began, strict=True))
    chunks = samples / config.chunk_samples
    return Prediction(samples / seconds, aged / chunks)


def _so_far(run: Simulation, learners: Sequence[Learner]) -> tuple[float, float, float]:
    """Seconds, samples trained on, and the sum of the ages of their chunks."""
    aged = [age * count for learner in learners for age, count in learner.histograms()["age_rounds"].items()]
    return run.now_ns / 1e9, float(sum(learner.steps for learner in learners)), float(sum(aged))
