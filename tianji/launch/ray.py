"""A run on a Ray cluster that is there: Ray says where role processes live, and everything else is as on one host.

A placement group reserves a bundle of CPUs for each process of a run with one group, or for each group of several. Edges
whose ends share a node are in shared memory there; all others are ZeroMQ over tcp, with keys made for this run alone. Ray
carries assignments only. Every node needs this package; what learners store goes to a folder that their nodes see.
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
from tianji.launch.job import Job, neighbours, policy_of
from tianji.launch.supervisor import Listener, Supervisor
from tianji.topology import RoleSpec, Topology, addresses, lay_out, place
from tianji.worlds.assembly import Past, Store
from tianji.worlds.real import Assignment, perform

PLACING_LIMIT_S = 60.0
"""How long the cluster may take to reserve what a run needs."""
KNOCK_S = 5.0


class RoleProcess:
    """The Ray actor that is one process of a run: of a role, or of whatever else an entry point makes of it."""

    def workspace(self) -> str:
        """A private folder on this node, for the sockets of its edges."""
        return tempfile.mkdtemp(prefix="tianji-", dir="/tmp")

    def leave(self, folder: str) -> None:
        """Remove a folder that `workspace` made."""
        shutil.rmtree(folder, ignore_errors=True)

    def play(self, entry: str, assignment: bytes, import_path: tuple[str, ...]) -> bool:
        """Do what an assignment says, to its end; False when that failed (the launcher has been told why).

        `entry` is `module:function`, which is given the assignment. Where the launcher finds modules, and with them a user's
        own environment, is looked at last: on another host it may be nowhere.
        """
        sys.path.extend(path for path in import_path if path not in sys.path)
        module, _, function = entry.partition(":")
        play: Callable[[bytes], bool] = getattr(importlib.import_module(module), function)
        return play(assignment)


def play_role(assignment: bytes) -> bool:
    """The entry point of TianJi's roles."""
    told = msgspec.json.decode(assignment, type=Assignment)
    name_process(f"tj-{told.spec.name}")
    return perform(told)


@dataclass(frozen=True)
class Placement:
    """Which bundle each process is in, by its name, and what it takes of it."""

    bundles: list[dict[str, float]]
    of: dict[str, int]
    cpus: dict[str, int]
    """Of those that compute; others need none of their own."""
    gpus: dict[str, int] = field(default_factory=dict)
    strategy: str = "PACK"

    @classmethod
    def of_run(cls, config: TrainConfig, roles: Sequence[RoleSpec], nodes: int | None = None) -> Placement:
        """A bundle for each of so many nodes. Where their number is left open, one for each group or, if there is but one, for
        each process that computes.

        Buffer and Root compute next to nothing: they share the learner's bundle and need no CPU of their own.
        """
        gpu = {"GPU": 1.0} if config.device == "cuda" else {}
        cpus = {role.name: 1 for role in roles if role.kind in ("actor", "learner")}
        gpus = {role.name: 1 for role in roles if role.kind == "learner"} if gpu else {}
        if nodes is not None:
            of = place(roles, nodes)
            totals = [(kind, Counter(of[name] for name in of_kind)) for kind, of_kind in (("CPU", cpus), ("GPU", gpus))]
            bundles = [{kind: float(total[n]) for kind, total in totals if total[n]} for n in range(nodes)]
        elif config.groups > 1:
            bundles = [{"CPU": 1.0 + config.actors, **gpu} for _ in range(config.groups)]
            of = {role.name: role.group for role in roles}
        else:
            bundles = [{"CPU": 1.0, **gpu}, *({"CPU": 1.0} for _ in range(config.actors))]
            of = {role.name: 1 + role.index if role.kind == "actor" else 0 for role in roles}
        return cls(bundles, of, cpus, gpus, config.placement)


class RayCrew(Crew):
    """Processes as Ray actors.

    Parameters
    ----------
    entry
        what each of them plays: `module:function`, which takes the bytes of an assignment and says whether it went well.
    """

    def __init__(self, group: Any, placement: Placement, entry: str = f"{__name__}:play_role") -> None:
        self._group, self._placement, self._entry = group, placement, entry
        self.actors: dict[str, Any] = {}
        self._playing: set[str] = set()
        self._lock = threading.Lock()
        self._gone: list[tuple[str, str, bool]] = []
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def create(self, name: str) -> Any:
        """A process of this name, where it was placed."""
        placement = self._placement
        options = {
            "num_cpus": placement.cpus.get(name, 0),
            "num_gpus": placement.gpus.get(name, 0),
            "max_restarts": 0,
            # A folder can be removed while a role is played.
            "max_concurrency": 2,
            "runtime_env": {"env_vars": ONE_THREAD},
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=placement.of[name]
            ),
        }
        if name in self.actors:
            # Its CPUs are its successor's.
            ray.kill(self.actors[name])
        self.actors[name] = actor = ray.remote(RoleProcess).options(**options).remote()
        return actor

    def play(self, name: str, assignment: bytes) -> None:
        """Let the process of this name begin; it finds modules where this one does."""
        self._playing.add(name)
        future = self.actors[name].play.remote(self._entry, assignment, tuple(map(str, sys.path))).future()
        future.add_done_callback(lambda done: self._ended(name, done))

    def _ended(self, name: str, future: Any) -> None:
        """Called from a thread of Ray's."""
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

    def end(self, orderly: Collection[str]) -> None:
        poller = zmq.Poller()
        poller.register(self._bell, zmq.POLLIN)
        while self._playing & set(orderly) and poller.poll(int(PARTING_S * 1000)):
            self.ended()
        with self._lock:
            os.close(self._bell)
            self._bell = -1
        for actor in self.actors.values():
            ray.kill(actor)


def launch(job: Job, listener: Listener, store: Store | None, stop_seconds: float | None) -> None:
    """Place a job's processes on the cluster, and serve them to their end; raises as `tianji.launch.local.launch` does.

    Raises
    ------
    ConfigError
        when there is no cluster, or it cannot hold the run.
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
        control, control_uri = stack.enter_context(tcp_control_socket(here, keys))
        crew = RayCrew(group, placement)
        supervisor = Supervisor(control, crew, frozenset(role.name for role in roles), listener)
        stack.callback(supervisor.end)
        where = {role.name: nodes[placement.of[role.name]] for role in roles}
        for role in roles:
            crew.create(role.name)
        folders = stack.enter_context(workspaces(where, crew.actors))
        hosts = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        topology = Topology(roles, addresses(roles, where, folders, hosts))
        told = None if keys is None else (keys.public.decode(), keys.secret.decode())

        def play(spec: RoleSpec, past: Past, known: Topology) -> None:
            host = hosts[where[spec.name]]
            assignment = Assignment(spec, config, job.describe, known, control_uri, past, store, told, host, beside[spec.name])
            crew.play(spec.name, msgspec.json.encode(assignment))

        def respawn(name: str, life: int, steps: int, bound: dict[str, str]) -> None:
            crew.create(name)
            play(by_name[name], Past(life, steps), Topology(roles, {**topology.addresses, **bound}))

        by_name, beside = {role.name: role for role in roles}, neighbours(roles, where)
        supervisor.policy = policy_of(config, roles, store, respawn)
        for role in roles:
            play(role, job.past(role, store), topology)
        supervisor.supervise(stop_seconds)


@contextmanager
def connected(where: str) -> Iterator[None]:
    """Connected to the cluster; who was before, stays."""
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
    """See whether anybody is at HOST:PORT: Ray itself would ask for minutes; `OSError` or `ValueError` when nobody is."""
    if where != "auto":
        host, _, port = where.rpartition(":")
        socket.create_connection((host, int(port)), timeout=KNOCK_S).close()


@contextmanager
def reserved(placement: Placement) -> Iterator[tuple[Any, list[str]]]:
    """A placement group, and the node (its id) of each bundle."""
    group = placement_group(placement.bundles, strategy=placement.strategy)
    try:
        if not group.wait(PLACING_LIMIT_S):
            there = {name: n for name, n in ray.cluster_resources().items() if name in ("CPU", "GPU")}
            raise ConfigError(
                f"launcher ray: the cluster ({there}) has no room for {placement.bundles} by {placement.strategy}; "
                "ask for fewer actors or groups, or another --set placement="
            )
        by_bundle = placement_group_table(group)["bundles_to_node_id"]
        yield group, [by_bundle[i] for i in range(len(placement.bundles))]
    finally:
        remove_placement_group(group)


@contextmanager
def workspaces(where: dict[str, str], actors: dict[str, Any]) -> Iterator[dict[str, str]]:
    """A private folder on each node that holds two roles or more; made and removed by processes that are there anyway."""
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
    """Have a process remove a folder of its node, if it still can."""
    try:
        ray.get(actor.leave.remote(folder), timeout=PARTING_S)
    except ray.exceptions.RayError:
        return False
    return True
