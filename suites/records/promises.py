"""Required contents of a manifest's configuration and environment, for each suite, as far as reports depend on them.

Both may hold more, which reports only show.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from suites.records.limits import Amount, Count, Name, Number, Positive, Text, plain

Few = Annotated[int, Meta(ge=1, le=4096)]


class Environment(Struct):
    """Required fields of `suites.records.machine.manifest`."""

    cpu_model: Text
    cpu_usable: Few
    cpu_quota_cores: Amount | None = None
    memory_bytes: Count = 0
    kernel: Text = ""
    load_1min_at_start: Amount | None = None
    noise_floor: Amount | None = None
    date: Text | None = None
    git_commit: Text | None = None
    git_dirty: bool | None = None
    packages: dict[Text, Text] = {}


class Thresholds(Struct):
    """Returns that are to be reached."""

    training: Number
    evaluated: Number


class Evaluation(Struct):
    """How snapshots are judged."""

    averaged: Annotated[int, Meta(ge=1, le=1000)] = 10
    episodes: Positive | None = None


class Workload(Struct):
    """Required fields of a workload."""

    title: Text
    budget_steps: Positive
    thresholds: Thresholds
    evaluation: Evaluation
    environments: Few


class Replay(Struct):
    """Its update round."""

    train_every_steps: Positive
    updates: Positive
    batch_size: Positive
    replay_capacity: Positive


class IMPALA(Struct):
    """Its update round."""

    rollout_steps: Positive


class PPO(Struct):
    """Its update round."""

    rollout_steps: Positive
    minibatch_size: Positive
    epochs: Positive


class Described(Workload):
    """The same with its algorithm, of which a report says how it goes."""

    env: Text
    algo: Literal["ppo", "dqn", "impala", "sac", "td3"]
    ppo: PPO | None = None
    dqn: Replay | None = None
    impala: IMPALA | None = None
    sac: Replay | None = None
    td3: Replay | None = None

    def __post_init__(self) -> None:
        if getattr(self, self.algo) is None:
            raise ValueError(f"algo is {self.algo}, and there is no table {self.algo}")
        if self.evaluation.episodes is None:
            raise ValueError("evaluation lacks `episodes`")


class Training(Struct):
    """Configuration of suites that train."""

    workload: Described
    stop_at_goal: bool = False


class Regime(Struct):
    """Limits of nodes."""

    id: Text = ""
    cores: Annotated[float, Meta(gt=1e-6, le=1e6)] | None = None
    link_bits_per_s: Annotated[float, Meta(ge=1, le=1e15)] | None = None


class OnNodes(Struct):
    """Configuration of scaling."""

    workload: Workload
    regime: Regime = msgspec.field(default_factory=Regime)


class Messages(Struct):
    """Messages that are sent."""

    title: Text
    ceiling: Name
    testbed: Name
    direction: Literal["samples", "weights"]
    link_bits_per_s: Annotated[float, Meta(ge=1, le=1e15)] | None


class Extent(Struct):
    """Extent of the measurement."""

    explorers: Annotated[list[Few], Meta(min_length=1, max_length=64)]


class Transmission(Struct):
    """Configuration of transmission."""

    workload: Messages
    extent: Extent


CONFIGURATIONS: dict[str, Any] = {
    "convergence": Training,
    "staleness": Training,
    "asynchrony": Training,
    "disciplines": Training,
    "tuning": Training,
    "scaling": OnNodes,
    "transmission": Transmission,
}
"""Required contents by suite. Suites of other packages require nothing."""


def check(suite: str, configuration: dict[str, Any], environment: dict[str, Any]) -> None:
    """Check that they hold what they should.

    Raises
    ------
    ValueError
        where they do not; one line.
    """
    for name, value, kind in (
        ("configuration", configuration, CONFIGURATIONS.get(suite)),
        ("environment", environment, Environment),
    ):
        try:
            plain(value)
            if kind is not None:
                msgspec.convert(value, kind)
        except ValueError as error:
            raise ValueError(f"its {name}: {error}") from None
