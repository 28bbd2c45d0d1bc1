"""A run from its launch to its end, over the death of its learners: each launch goes on from what was stored last."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.launch.node import Cluster
from tianji.launch.supervisor import CoreLost, Heard, Listener, Policy, Restarted, RoleFailed, backoff_s
from tianji.messages import Started
from tianji.run_folder import read_values, state_path
from tianji.topology import RoleSpec
from tianji.worlds.assembly import Past, Store

Launch = Callable[["Job", Listener, Store | None, float | None], None]
"""Starts processes and serves them: the job, its listener, where state lies, and the seconds after which it ends."""


Respawn = Callable[[str, int, int, dict[str, str]], None]
"""See `tianji.launch.supervisor.Policy`."""


def policy_of(config: TrainConfig, roles: Iterable[RoleSpec], store: Store | None, respawn: Respawn) -> Policy:
    """What a supervisor may do for a run: actors and buffers are started again, learners store their state."""
    kinds = {role.name: role.kind for role in roles}
    return Policy(
        respawn=respawn,
        replaceable=frozenset(name for name, kind in kinds.items() if kind in ("actor", "buffer")),
        restarts=config.restarts,
        savers=frozenset(name for name, kind in kinds.items() if kind == "learner" and store is not None),
        save_every_s=config.checkpoint_seconds,
    )


def neighbours(roles: Iterable[RoleSpec], where: Mapping[str, Hashable]) -> dict[str, dict[str, int]]:
    """By role, how many of each kind are on its node, itself too."""
    roles = list(roles)
    on: dict[Hashable, dict[str, int]] = {}
    for role in roles:
        kinds = on.setdefault(where[role.name], {})
        kinds[role.kind] = kinds.get(role.kind, 0) + 1
    return {role.name: on[where[role.name]] for role in roles}


@dataclass
class Job:
    """What is to be run, and where its learners keep their state (None: in a folder of its own, which goes with it)."""

    config: TrainConfig
    describe: EnvDescription
    state: Path | None = None
    resume: bool = False
    """Whether it goes on from what lies in `state`."""
    cluster: Cluster | None = None
    """Nodes to spread over; None: this host, or as many of Ray's as its placement takes."""

    def run(self, listener: Listener) -> None:
        """Run to the end.

        Raises
        ------
        RoleFailed
            with the first cause, when a learner died more often than it may be started again, or before it had stored
            anything; and when another role failed once too often.
        KeyboardInterrupt
            passed on after the roles have been asked to stop and have told what they did.
        """
        config = self.config
        # Ray is an import of seconds, and need not be installed.
        launch: Launch = importlib.import_module(f"tianji.launch.{config.launcher}").launch
        begun: list[float] = []

        def hear(message: Heard) -> str | None:
            if isinstance(message, Started) and not begun:
                begun.append(time.monotonic())
            return listener(message)

        with ExitStack() as stack:
            folder = self.state
            if folder is None and config.launcher == "local" and config.checkpoint_seconds is not None and config.restarts:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tianji-state-")))
            store = None if folder is None else Store(str(folder.absolute()), self.resume)
            launches, first_cause = 0, ""
            while True:
                seconds = config.stop_seconds
                if seconds is not None and begun:
                    seconds = max(0.0, begun[0] + seconds - time.monotonic())
                try:
                    launch(self, hear, store, seconds)
                    return
                except CoreLost as lost:
                    first_cause = first_cause or str(lost)
                    stored = folder is not None and all(state_path(folder, g).exists() for g in range(config.groups))
                    if launches == config.restarts or not stored:
                        raise RoleFailed(first_cause) from lost
                    assert folder is not None
                    after = backoff_s(launches)
                    listener(Restarted("", str(lost), after, time.monotonic_ns()))
                    time.sleep(after)
                    launches += 1
                    store = Store(str(folder.absolute()), resume=True)

    def past(self, spec: RoleSpec, store: Store | None) -> Past:
        """What a role did before it was stored: of actors, their share of their group's steps."""
        if store is None or not store.resume or spec.kind != "actor":
            return Past()
        return Past(steps=steps_of(store, spec.group) // self.config.actors)


def steps_of(store: Store, group: int) -> int:
    """Environment steps of a group when its learner's state was stored."""
    return int(read_values(state_path(Path(store.folder), group))["learner"]["steps"])
