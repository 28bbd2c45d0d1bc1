"""State of a run's environments between two runs in lockstep, so that the second goes on with the episodes of the first.

It belongs to one state of the learner: that with as many environment steps. A run that goes on is the same to the last bit as
one that was never stopped, if no chunk was under way that the learner would still have trained on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from tianji.config import TrainConfig
from tianji.faults import Unknown
from tianji.messages import ACTOR_STEPS
from tianji.roles.actor import Actor
from tianji.roles.learner import Learner
from tianji.run_folder import LARGEST_JSON, episodes_path, read_json, write_json
from tianji.settings import convert
from tianji.topology import RoleSpec
from tianji.worlds.assembly import Past
from tianji.worlds.host import Host
from tianji.worlds.workers import Memory

MOST_BYTES = LARGEST_JSON // 2
"""Largest state of a group's environments that is stored, without the line breaks of the file."""


class Kept(Struct):
    """What is stored of a group's environments."""

    steps: int
    """Environment steps of the group's learner."""
    actors: list[Memory] = []
    """State of each actor's sampler; empty: there is none."""
    exact: bool = False
    """Whether a run that goes on from it is the one that was never stopped."""
    why: str = ""
    """Why there is none."""


def store(config: TrainConfig, folder: Path, hosts: Mapping[RoleSpec, Host]) -> None:
    """Store the state of each group's environments, or why there is none."""
    for group in range(config.groups):
        roles = {spec: host for spec, host in hosts.items() if spec.group == group}
        learner = next(host.role for host in roles.values() if isinstance(host.role, Learner))
        actors = [host for spec, host in sorted(roles.items(), key=lambda one: one[0].index) if spec.kind == "actor"]
        kept = msgspec.to_builtins(_kept(config, learner, actors))
        if len(json.dumps(kept)) > MOST_BYTES:
            kept = msgspec.to_builtins(Kept(learner.steps, why=f"the state of its environments is over {MOST_BYTES >> 20} MiB"))
        write_json(episodes_path(folder, group), kept)


def _kept(config: TrainConfig, learner: Learner, actors: list[Host]) -> Kept:
    memories, exact = [], config.groups == 1
    for host in actors:
        actor = host.role
        assert isinstance(actor, Actor)
        try:
            memory = host.worker.after(learner.steps // len(actors))
        except Unknown as error:
            return Kept(learner.steps, why=f"environment {config.env}: {error}")
        if memory is None:
            return Kept(learner.steps, why=f"under discipline {config.rule.name} actors were ahead of the learner")
        # What it sampled beyond is sampled again: under the same weights, or it was made with older ones.
        exact &= host.worker.progress() == {ACTOR_STEPS: memory["steps"]} or actor.acting_version == learner.version
        memories.append(memory)
    return Kept(learner.steps, memories, exact)


def past(config: TrainConfig, folder: Path, group: int, steps: int) -> tuple[list[Past], str | None]:
    """History of a group's actors, by their number, and why the run does not go on to the last bit; None: it does.

    Parameters
    ----------
    steps
        environment steps of the group's learner.

    Raises
    ------
    ConfigError
        if the file is damaged.
    """
    anew, path = [Past(steps=steps // config.actors)] * config.actors, episodes_path(folder, group)
    if not path.exists():
        return anew, "no state of its environments was stored, so episodes begin anew"
    kept = convert(read_json(path), Kept, str(path))
    if kept.steps != steps:
        return anew, "the state of its environments is of another moment, so episodes begin anew"
    if len(kept.actors) != config.actors:
        return anew, f"{kept.why}, so episodes begin anew"
    found = [Past(steps=steps // config.actors, memory=memory) for memory in kept.actors]
    return found, None if kept.exact else "chunks that were under way are sampled again"
