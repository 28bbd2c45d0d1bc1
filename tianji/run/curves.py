"""Curves of a run: one point at each progress message of a learner, for every logger."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

import numpy as np

from tianji.run.display import Live
from tianji.run.loggers import Logger

LEARNERS = (
    "policy_loss", "value_loss", "loss", "entropy", "approx_kl", "clip_fraction", "explained_variance", "mean_value",
    "gradient_norm", "learning_rate"
)  # fmt: skip
"""Metrics of learners; see `tianji.algorithms.metrics`."""


def points(live: Live) -> dict[str, float]:
    """The latest point of each curve, by name. What is unknown is left out."""
    found = {
        "throughput/steps_per_s": live.steps_per_s,
        "throughput/updates_per_s": live.updates_per_s,
        "training/updates": live.total("optimizer_steps"),
        "training/episodes": live.episodes,
        "staleness/mean_rounds": live.mean("staleness_mean_rounds"),
        "staleness/p99_rounds": live.mean("staleness_p99_rounds"),
        "staleness/mean_versions": live.mean("staleness_mean_versions"),
        "balance/consumption_ratio": live.mean("consumption_ratio"),
        "balance/window_chunks": live.mean("window_chunks"),
        "run/restarts": live.restarts,
    }
    if live.mean_return is not None:
        found["return/mean_of_100"] = live.mean_return
    if live.lengths:  # A resumed run knows the returns of earlier episodes, and not their lengths.
        found["return/length_of_100"] = float(np.mean(live.lengths))
    if live.evaluated is not None:
        found["evaluation/steps"], found["evaluation/mean_return"] = live.evaluated
    counted = {name for counters in live.counters.values() for name in counters}
    return found | {f"learner/{name}": live.mean(name) for name in LEARNERS if name in counted}


class Curves:
    """Passes points on to loggers. It is a context manager, which closes them."""

    def __init__(self, loggers: Iterable[Logger]) -> None:
        self._loggers = list(loggers)

    def add(self, live: Live) -> None:
        """Add one point to each curve, at the learners' environment steps."""
        step, values = int(live.total("steps")), points(live)
        for logger in self._loggers:
            logger.log(step, values)

    def __enter__(self) -> Curves:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for logger in self._loggers:
            logger.close()
