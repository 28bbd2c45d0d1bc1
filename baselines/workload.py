"""What is trained, how and until when: the data that every system is given alike."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from tianji.config import Count, NetworkConfig, Positive, PositiveFloat, PPOConfig, Settings


class Thresholds(Settings):
    """Returns that count as solved."""

    training: float
    """Mean return of the last 100 finished training episodes."""
    evaluated: float
    """Mean greedy return of a snapshot over `episodes` seeded episodes."""


class Evaluation(Settings):
    """How snapshots are judged after the run; the same for every system."""

    episodes: Annotated[int, Meta(ge=2)] = 20
    in_a_row: Positive = 3
    """Snapshots in a row that must reach the threshold; the first of them is the crossing."""
    seed: Count = 10_000
    """Of the first episode; the others count up from it, and confirmation episodes go on from there."""


class Workload(Settings):
    """One workload file, complete: nothing is left to a system's defaults."""

    id: Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$")]
    title: str
    env: str
    algo: Literal["ppo"]
    environments: Positive
    """Over all actors."""
    network: NetworkConfig
    ppo: PPOConfig
    horizon_steps: Positive
    """What schedules count towards: environment steps before the round that is trained on, summed over actors."""
    budget_steps: Positive
    budget_seconds: PositiveFloat
    """Of training, after set-up; the run is stopped and what it did is kept."""
    snapshot_every_steps: Positive
    thresholds: Thresholds
    evaluation: Evaluation = Evaluation()
    division: Literal["closed"] = "closed"

    @property
    def round_steps(self) -> int:
        """Environment steps of one update round."""
        return self.environments * self.ppo.rollout_steps
