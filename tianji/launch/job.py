"""A complete run, restarted from its last checkpoints if a learner dies."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from programs.cli import ConfigError
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.environments.place import Doing
from tianji.launch.events import CoreLost, Heard, Listener, Restarted, RoleFailed, Trouble
from tianji.launch.first_phase import Trial
from tianji.launch.node import Cluster
from tianji.launch.recovery import Recovery, backoff_s
from tianji.messages import Started
from tianji.run_folder import mend_state, read_values, state_path
from tianji.topology import RoleSpec, Topology, edges_of
from tianji.worlds.assembly import Past, Store

Launch = Callable[["Job", Listener, Store | None, float | None], None]
"""Function that starts and serves processes, from a job, its listener, the state's folder and a time limit in seconds."""


Respawn = Callable[[str, int, int, dict[str, str]], None]
"""See `tianji.launch.supervisor.Recovery`."""


def recovery_of(
    config: TrainConfig,
    at: Mapping[str, Sequence[RoleSpec]],
    store: Store | None,
    respawn: Respawn,
    doing: Callable[[str], Doing | None] = lambda name: None,
) -> Recovery:
    """Recovery settings of a run: actors and buffers are restarted, and learners store their state.

    Parameters
    ----------
    at
        the roles of each process, by its name.
    doing
        function that says which call into an environment a process is in.
    """

    kinds = {name: roles[0].kind for name, roles in at.items()}

    def told(name: str) -> str | None:
        call = doing(name)
        return None if call is None else f"environment {config.env}, number {call.number}: its {call.deed}"

    return Recovery(
        respawn=respawn,
        replaceable=frozenset(name for name, kind in kinds.items() if kind in ("actor", "buffer")),
        restarts=config.restarts,
        savers=frozenset(name for name, kind in kinds.items() if kind == "learner" and store is not None and store.saves),
        save_every_s=config.checkpoint_seconds,
        silence_s=config.silence_seconds,
        replace_silent=config.replace_silent,
        doing=told,
    )


def known_to(at: Mapping[str, Sequence[RoleSpec]], topology: Topology) -> dict[str, Topology]:
    """What each process is told of the topology: the addresses of its own edges, and no others.

    Parameters
    ----------
    at
        the roles of each process, by its name.
    """
    own = edges_of(topology.roles)
    return {name: topology.only(edge for spec in specs for edge in own[spec.name]) for name, specs in at.items()}


def at_open_ports(known: Mapping[str, Topology]) -> dict[str, Collection[str]]:
    """Edges of the processes that have ends at open ports, by the process's name."""
    return {name: there.addresses.keys() for name, there in known.items() if there.open_ports}


def neighbours(roles: Iterable[RoleSpec], where: Mapping[str, Hashable]) -> dict[str, dict[str, int]]:
    """Number of roles of each kind on each role's node, itself included."""
    roles = list(roles)
    on: dict[Hashable, dict[str, int]] = {}
    for role in roles:
        kinds = on.setdefault(where[role.name], {})
        kinds[role.kind] = kinds.get(role.kind, 0) + 1
    return {role.name: on[where[role.name]] for role in roles}


@dataclass
class Job:
    """A run to be launched, and the folder of its learners' state (None: a temporary one)."""

    config: TrainConfig
    describe: EnvDescription
    state: Path | None = None
    resume: bool = False
    """Whether it continues from the state in `state`."""
    cluster: Cluster | None = None
    """Nodes over which it is spread; None: this host, or as many of Ray's as its placement takes."""

    def run(self, listener: Listener) -> None:
        """Run to the end.

        Raises
        ------
        RoleFailed
            with the first cause, if a role died more often than it may be restarted, or a learner before its first checkpoint.
        KeyboardInterrupt
            passed on after the roles have stopped and reported.
        """
        config, auto = self.config, self.config.auto
        trial = None if auto is None else Trial(config, auto, listener)
        # Importing Ray takes seconds, and it need not be installed.
        launch: Launch = importlib.import_module(f"tianji.launch.{config.launcher}").launch
        begun: list[float] = []

        def hear(message: Heard) -> str | None:
            if isinstance(message, Started) and not begun:
                begun.append(time.monotonic())
            return (trial or listener)(message)

        with ExitStack() as stack:
            if trial is not None:
                stack.callback(trial.give_up)
            folder = self.state
            stores = config.checkpoint_seconds is not None and config.restarts
            if folder is None and config.launcher == "local" and (stores or trial is not None):
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tianji-state-")))
            # Under `auto`, the second launch goes on from what the first one stored.
            saves = config.checkpoint_seconds is not None or trial is not None
            store = None if folder is None else Store(str(folder.absolute()), self.resume, saves)
            launches, first_cause = 0, ""
            while True:
                seconds = config.stop_seconds
                if seconds is not None and begun:
                    seconds = max(0.0, begun[0] + seconds - time.monotonic())
                try:
                    launch(self, hear, store, seconds)
                    if trial is None or not trial.measured:
                        return
                    assert folder is not None
                    self.config = config.under(trial.choose())
                    store = Store(str(folder.absolute()), resume=True, saves=saves)
                except CoreLost as lost:
                    first_cause = first_cause or str(lost)
                    if launches == config.restarts or folder is None:
                        raise RoleFailed(first_cause) from lost
                    try:
                        mended = [mend_state(state_path(folder, group)) for group in range(config.groups)]
                    except ConfigError:
                        # Nothing was stored yet, or nothing can be read.
                        raise RoleFailed(first_cause) from lost
                    for text in filter(None, mended):
                        hear(Trouble("", text, time.monotonic_ns()))
                    after = backoff_s(launches)
                    hear(Restarted("", str(lost), after, time.monotonic_ns()))
                    time.sleep(after)
                    launches += 1
                    store = Store(str(folder.absolute()), resume=True, saves=saves)

    def past(self, spec: RoleSpec, store: Store | None) -> Past:
        """History of a role before the checkpoint: for actors, their share of their group's steps."""
        if store is None or not store.resume or spec.kind != "actor":
            return Past()
        return Past(steps=steps_of(store, spec.group) // self.config.actors)


def steps_of(store: Store, group: int) -> int:
    """Environment steps of a group at its learner's last checkpoint."""
    return int(read_values(state_path(Path(store.folder), group))["learner"]["steps"])
