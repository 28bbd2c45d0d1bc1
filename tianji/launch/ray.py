"""Runs on a running Ray cluster. Ray places the role processes; everything else is as on one host.

A placement group reserves a bundle of CPUs for each process of a run with one group, or for each of several groups. Edges
within a node use shared memory. All others use ZeroMQ over tcp, with keys made for this run. Ray carries assignments only.
Every node needs this package, and learners save their state to a folder that their nodes share.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import socket
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import ray
import zmq
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from programs.cli import ConfigError
from programs.process import name_process
from tianji.channel.security import Keys
from tianji.config import TrainConfig
from tianji.launch.children import ONE_THREAD, PARTING_S
from tianji.launch.control import tcp_control_socket
from tianji.launch.crew import Crew
from tianji.launch.events import Listener
from tianji.launch.job import Job, at_open_ports, known_to, neighbours, recovery_of
from tianji.launch.supervisor import Supervisor, new_badges
from tianji.topology import RoleSpec, Topology, addresses, lay_out, parameters, place, seats
from tianji.worlds.assembly import Past, Store
from tianji.worlds.real import Assignment, perform

PLACING_LIMIT_S = 60.0
"""Seconds that the cluster may take to reserve resources."""
KNOCK_S = 5.0


class RoleProcess:
    """Ray actor that is one process of a run and runs an entry point."""

    def workspace(self) -> str:
        """Make a private folder on this node, for the sockets of its edges."""
        return tempfile.mkdtemp(prefix="tianji-", dir="/tmp")

    def leave(self, folder: str) -> None:
        """Remove a folder that `workspace` made."""
        shutil.rmtree(folder, ignore_errors=True)

    def play(self, entry: str, assignment: bytes, import_path: tuple[str, ...]) -> bool:
        """Run an assignment to its end. False if that failed; the launcher knows why.

        `entry` is `module:function`, which takes the assignment. The launcher's import path, which finds a user's own
        environment, is searched last, because its folders may not exist on another host.
        """
        sys.path.extend(path for path in import_path if path not in sys.path)
        module, _, function = entry.partition(":")
        play: Callable[[bytes], bool] = getattr(importlib.import_module(module), function)
        return play(assignment)


def play_role(assignment: bytes) -> bool:
    """Entry point of TianJi's roles."""
    told = msgspec.json.decode(assignment, type=Assignment)
    name_process(f"tj-{told.name}")
    return perform(told)


@dataclass(frozen=True)
class Placement:
    """Bundle and CPUs of each process, by name."""

    bundles: list[dict[str, float]]
    of: dict[str, int]
    cpus: dict[str, int]
    """CPUs of the processes that compute. Others need none."""
    gpus: dict[str, int] = field(default_factory=dict)
    strategy: str = "PACK"

    @classmethod
    def of_run(cls, config: TrainConfig, roles: Sequence[RoleSpec], nodes: int | None = None) -> Placement:
        """Make a bundle for each of `nodes` nodes. By default, make one for each group or, with one group, for each computing
        process.

        Buffer and Root compute almost nothing. They share the learner's bundle and need no CPU.
        """
        gpu = {"GPU": 1.0} if config.device == "cuda" else {}
        first = [there[0] for there in seats(config, roles)]
        cpus = {role.name: 1 for role in first if role.kind in ("actor", "learner")}
        gpus = {role.name: 1 for role in first if role.kind == "learner"} if gpu else {}
        if nodes is not None:
            of = place(roles, nodes)
            totals = [(kind, Counter(of[name] for name in of_kind)) for kind, of_kind in (("CPU", cpus), ("GPU", gpus))]
            bundles = [{kind: float(total[n]) for kind, total in totals if total[n]} for n in range(nodes)]
        elif config.groups > 1:
            bundles = [{"CPU": len(cpus) / config.groups, **gpu} for _ in range(config.groups)]
            of = {role.name: role.group for role in roles}
        else:
            actors = [role.name for role in first if role.kind == "actor"]
            bundles = [{"CPU": 1.0, **gpu}, *({"CPU": 1.0} for _ in actors)]
            of = dict.fromkeys((role.name for role in roles), 0) | {name: n for n, name in enumerate(actors, 1)}
        return cls(bundles, of, cpus, gpus, config.ray_placement)


class RayCrew(Crew):
    """Processes as Ray actors.

    Parameters
    ----------
    entry
        function that each of them runs, as `module:function`. It takes the bytes of an assignment and returns success.
    """

    def __init__(self, group: Any, placement: Placement, entry: str = f"{__name__}:play_role") -> None:
        self._group, self._placement, self._entry = group, placement, entry
        self.actors: dict[str, Any] = {}
        self._playing: set[str] = set()
        self._lock = threading.Lock()
        self._gone: list[tuple[str, str, bool]] = []
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def create(self, name: str) -> Any:
        """Make a process of this name in its place."""
        placement = self._placement
        options = {
            "num_cpus": placement.cpus.get(name, 0),
            "num_gpus": placement.gpus.get(name, 0),
            "max_restarts": 0,
            # A folder can be removed while a role runs.
            "max_concurrency": 2,
            "runtime_env": {"env_vars": ONE_THREAD},
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=placement.of[name]
            ),
        }
        if name in self.actors:
            # Its successor gets its CPUs.
            ray.kill(self.actors[name])
        self.actors[name] = actor = ray.remote(RoleProcess).options(**options).remote()
        return actor

    def play(self, name: str, assignment: bytes) -> None:
        """Start the process of this name, with the import path of this one."""
        self._playing.add(name)
        future = self.actors[name].play.remote(self._entry, assignment, tuple(map(str, sys.path))).future()
        future.add_done_callback(lambda done: self._ended(name, done))

    def _ended(self, name: str, future: Any) -> None:
        """Handle the end of a process. Ray calls it from one of its threads."""
        error = future.exception()
        with self._lock:
            if self._bell >= 0:
                how = "success" if error is None else type(error).__name__
                self._gone.append((name, how, error is None))
                os.eventfd_write(self._bell, 1)

    @property
    def descriptors(self) -> list[int]:
        return [self._bell]

    def ended(self) -> list[tuple[str, str, bool]]:
        with self._lock:
            gone, self._gone = self._gone, []
            if gone:
                os.eventfd_read(self._bell)
        self._playing.difference_update(name for name, _, _ in gone)
        return gone

    def kill(self, name: str) -> None:
        ray.kill(self.actors[name])

    def end(self, orderly: Collection[str]) -> Collection[str]:
        poller = zmq.Poller()
        poller.register(self._bell, zmq.POLLIN)
        while self._playing & set(orderly) and poller.poll(int(PARTING_S * 1000)):
            self.ended()
        with self._lock:
            os.close(self._bell)
            self._bell = -1
        for actor in self.actors.values():
            ray.kill(actor)
        return ()


def launch(job: Job, listener: Listener, store: Store | None, stop_seconds: float | None) -> None:
    """Place a job's processes on the cluster and serve them. Raises the errors of `tianji.launch.local.launch`.

    Raises
    ------
    ConfigError
        if there is no cluster, or it has no room for the run.
    """
    config = job.config
    roles = lay_out(config)
    cluster = job.cluster
    placement = Placement.of_run(config, roles, None if cluster is None else len(cluster.nodes))
    with ExitStack() as stack:
        stack.enter_context(connected(config.ray_address))
        group, nodes = stack.enter_context(reserved(placement))
        keys = Keys.generate() if config.encrypt else None
        here: str = ray.util.get_node_ip_address()
        control, control_uri = stack.enter_context(tcp_control_socket(here, keys, parameters(config, job.describe)))
        crew = RayCrew(group, placement)
        at = {specs[0].name: specs for specs in seats(config, roles)}
        badges = new_badges(at)
        supervisor = Supervisor(control, crew, frozenset(at), listener, badges=badges)
        stack.callback(supervisor.end)
        where = {role.name: nodes[placement.of[role.name]] for role in roles}
        for name in at:
            crew.create(name)
        folders = stack.enter_context(workspaces({name: where[name] for name in at}, crew.actors))
        hosts = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        topology = Topology(roles, addresses(config, roles, where, folders, hosts))
        told = None if keys is None else (keys.public.decode(), keys.secret.decode())

        def play(name: str, past: Past, told_of: Topology) -> None:
            host = hosts[where[name]]
            assignment = Assignment(
                at[name], config, job.describe, told_of, control_uri, past, store, told, host, badges[name], around[name]
            )
            crew.play(name, msgspec.json.encode(assignment))

        def respawn(name: str, life: int, steps: int, bound: dict[str, str]) -> None:
            crew.create(name)
            bound_again = Topology(roles, {**topology.addresses, **bound})
            play(name, Past(life, steps), bound_again.only(known[name].addresses))

        around = neighbours(roles, where)
        known = known_to(at, topology)
        supervisor.recovery, supervisor.edges = recovery_of(config, at, store, respawn), at_open_ports(known)
        for name, specs in at.items():
            play(name, job.past(specs[0], store), known[name])
        supervisor.supervise(stop_seconds)


@contextmanager
def connected(where: str) -> Iterator[None]:
    """Context that is connected to the cluster. An earlier connection stays open."""
    if ray.is_initialized():
        yield
        return
    try:
        _knock(where)
        ray.init(address=where, log_to_driver=True, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        text = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"launcher ray: no cluster at {where!r} ({text}); start one (`ray start --head`) or say where it is"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _knock(where: str) -> None:
    """Check that HOST:PORT accepts connections, because Ray would retry for minutes. `OSError` or `ValueError` if not."""
    if where != "auto":
        host, _, port = where.rpartition(":")
        socket.create_connection((host, int(port)), timeout=KNOCK_S).close()


@contextmanager
def reserved(placement: Placement) -> Iterator[tuple[Any, list[str]]]:
    """Context with a placement group and the id of each bundle's node."""
    group = placement_group(placement.bundles, strategy=placement.strategy)
    try:
        if not group.wait(PLACING_LIMIT_S):
            there = {name: n for name, n in ray.cluster_resources().items() if name in ("CPU", "GPU")}
            raise ConfigError(
                f"launcher ray: the cluster ({there}) has no room for {placement.bundles} by {placement.strategy}; "
                "ask for fewer actors or groups, or another --set ray_placement="
            )
        by_bundle = placement_group_table(group)["bundles_to_node_id"]
        yield group, [by_bundle[i] for i in range(len(placement.bundles))]
    finally:
        remove_placement_group(group)


@contextmanager
def workspaces(where: dict[str, str], actors: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Context with a private folder on each node that has several roles. Role processes make and remove them."""
    on: dict[str, list[str]] = {}
    for name, node in where.items():
        on.setdefault(node, []).append(name)
    shared = {node: names for node, names in on.items() if len(names) > 1}
    made = ray.get([actors[names[0]].workspace.remote() for names in shared.values()])
    folders: dict[str, str] = dict(zip(shared, made, strict=True))
    try:
        yield folders
    finally:
        for node, folder in folders.items():
            if not any(_left(actors[name], folder) for name in shared[node]):
                print(f"tianji: {folder} is left behind on node {node}: its processes are gone", file=sys.stderr)


def _left(actor: Any, folder: str) -> bool:
    """Let a process remove a folder of its node, if it still can."""
    try:
        ray.get(actor.leave.remote(folder), timeout=PARTING_S)
    except ray.exceptions.RayError:
        return False
    return True
