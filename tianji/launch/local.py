"""A run on this machine: one process for each role, on one node or spread over several that are emulated here.

Within a node edges are in shared memory, and their ends meet at sockets in a private directory; between nodes they are
ZeroMQ over tcp, at ports that the kernel chose.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack

import msgspec

from tianji.channel.security import Keys
from tianji.launch.children import Children
from tianji.launch.control import control_socket, private_folder, tcp_control_socket
from tianji.launch.job import Job, neighbours, policy_of
from tianji.launch.supervisor import Listener, Supervisor
from tianji.topology import RoleSpec, Topology, addresses, build, lay_out, place
from tianji.worlds.assembly import Past, Store
from tianji.worlds.real import Assignment, LocalAssignment


def launch(job: Job, listener: Listener, store: Store | None, stop_seconds: float | None) -> None:
    """Start a job's processes, and serve them to their end.

    Raises
    ------
    RoleFailed
        when a role fails; the others have been ended by then.
    KeyboardInterrupt
        passed on after the roles have been asked to stop and have told what they did.
    """
    config, cluster = job.config, job.cluster
    with ExitStack() as stack:
        keys, hosts = None, dict[int, str]()
        where = dict.fromkeys((spec.name for spec in lay_out(config)), 0)
        if cluster is None:
            control, base_uri = stack.enter_context(control_socket())
            control_uri = f"{base_uri}/control"
            topology = build(config, f"{config.channel}://{base_uri.removeprefix('ipc://')}")
        else:
            keys = Keys.generate() if config.encrypt and len(cluster.nodes) > 1 else None
            control, control_uri = stack.enter_context(tcp_control_socket(cluster.home, keys))
            roles = lay_out(config)
            where = place(roles, len(cluster.nodes))
            folders = {node: stack.enter_context(private_folder()) for node in set(where.values())}
            hosts = {node: cluster.nodes[node].address for node in folders}
            topology = Topology(roles, addresses(roles, where, folders, hosts, config.channel))
        told = None if keys is None else (keys.public.decode(), keys.secret.decode())
        children = Children()

        def spawn(spec: RoleSpec, past: Past, known: Topology) -> None:
            host = hosts.get(where[spec.name])
            assignment = Assignment(spec, config, job.describe, known, control_uri, past, store, told, host, beside[spec.name])
            children.spawn(
                spec.name,
                ["tianji.worlds.real", f"tj-{spec.name}"],
                msgspec.json.encode(LocalAssignment(assignment, os.getpid(), tuple(map(str, sys.path)))),
                node=None if cluster is None else cluster.nodes[where[spec.name]],
            )

        def respawn(name: str, life: int, steps: int, bound: dict[str, str]) -> None:
            # Others look for it where its predecessor was bound, and it for them where they are.
            spawn(by_name[name], Past(life, steps), Topology(topology.roles, {**topology.addresses, **bound}))

        # Emulated nodes share this host's cores.
        by_name, beside = {spec.name: spec for spec in topology.roles}, neighbours(topology.roles, dict.fromkeys(where, 0))
        policy = policy_of(config, topology.roles, store, respawn)
        supervisor = Supervisor(control, children, frozenset(by_name), listener, policy)
        stack.callback(supervisor.end)
        for spec in topology.roles:
            spawn(spec, job.past(spec, store), topology)
        supervisor.supervise(stop_seconds)
