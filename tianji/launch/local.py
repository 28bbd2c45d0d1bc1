"""Runs on this machine: local processes, on one node or on several emulated ones.

Edges within a node use shared memory, and their ends meet at sockets in a private folder. Edges between nodes use ZeroMQ over
tcp, at ports that the kernel chooses.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec

from tianji.channel.security import Keys
from tianji.environments.place import Place
from tianji.launch.children import Children
from tianji.launch.control import control_socket, private_folder, tcp_control_socket
from tianji.launch.events import Listener
from tianji.launch.job import Job, at_open_ports, known_to, neighbours, recovery_of
from tianji.launch.supervisor import Supervisor, new_badges
from tianji.topology import Topology, addresses, build, lay_out, parameters, place, seats
from tianji.worlds.assembly import Past, Store
from tianji.worlds.real import Assignment, LocalAssignment


def launch(job: Job, listener: Listener, store: Store | None, stop_seconds: float | None) -> None:
    """Start a job's processes and serve them to their end.

    Raises
    ------
    RoleFailed
        if a role fails. The others have ended by then.
    KeyboardInterrupt
        passed on after the roles have stopped and reported.
    """
    config, cluster = job.config, job.cluster
    with ExitStack() as stack:
        keys, hosts, size = None, dict[int, str](), parameters(config, job.describe)
        where = dict.fromkeys((spec.name for spec in lay_out(config)), 0)
        if cluster is None:
            control, base_uri = stack.enter_context(control_socket(size))
            control_uri = f"{base_uri}/control"
            topology = build(config, f"{config.channel}://{base_uri.removeprefix('ipc://')}")
        else:
            keys = Keys.generate() if config.encrypt and len(cluster.nodes) > 1 else None
            control, control_uri = stack.enter_context(tcp_control_socket(cluster.home, keys, size))
            roles = lay_out(config)
            where = place(roles, len(cluster.nodes))
            folders = {node: stack.enter_context(private_folder()) for node in set(where.values())}
            hosts = {node: cluster.nodes[node].address for node in folders}
            topology = Topology(roles, addresses(config, roles, where, folders, hosts))
        told = None if keys is None else (keys.public.decode(), keys.secret.decode())
        children, noted = Children(config.env), Path(stack.enter_context(private_folder()))

        def spawn(name: str, past: Past, told_of: Topology) -> None:
            host = hosts.get(where[name])
            assignment = Assignment(
                at[name],
                config,
                job.describe,
                told_of,
                control_uri,
                past,
                store,
                told,
                host,
                badges[name],
                around[name],
                str(_place(noted, name)),
            )
            places[name] = Place.made(_place(noted, name))
            children.spawn(
                name,
                ["tianji.worlds.real", f"tj-{name}"],
                msgspec.json.encode(LocalAssignment(assignment, os.getpid(), tuple(map(str, sys.path)))),
                node=None if cluster is None else cluster.nodes[where[name]],
            )

        def respawn(name: str, life: int, steps: int, bound: dict[str, str]) -> None:
            # It must bind where its predecessor was bound, because other roles connect there.
            bound_again = Topology(topology.roles, {**topology.addresses, **bound})
            spawn(name, Past(life, steps), bound_again.only(known[name].addresses))

        # Emulated nodes share this host's cores.
        at = {specs[0].name: specs for specs in seats(config, topology.roles)}
        places: dict[str, Place] = {}
        around = neighbours(topology.roles, dict.fromkeys(where, 0))
        badges = new_badges(at)
        recovery = recovery_of(config, at, store, respawn, lambda name: places[name].doing())
        known = known_to(at, topology)
        supervisor = Supervisor(control, children, frozenset(at), listener, recovery, badges, at_open_ports(known))
        stack.callback(supervisor.end)
        for name, specs in at.items():
            spawn(name, job.past(specs[0], store), known[name])
        supervisor.supervise(stop_seconds)


def _place(folder: Path, name: str) -> Path:
    """File in which a process notes what it does with its environments."""
    return folder / name.replace(" ", "-")
