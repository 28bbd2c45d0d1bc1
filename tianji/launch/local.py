"""A run on this machine: one process for each role, joined through sockets in a private directory."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgspec
import zmq

from tianji.launch.children import Children
from tianji.launch.job import Job
from tianji.launch.supervisor import Listener, Policy, Supervisor
from tianji.topology import RoleSpec, build
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
    config = job.config
    with ExitStack() as stack:
        control, base_uri = stack.enter_context(control_socket())
        topology = build(config, f"{config.channel}://{base_uri.removeprefix('ipc://')}")
        children = Children()

        def spawn(spec: RoleSpec, past: Past) -> None:
            assignment = Assignment(spec, config, job.describe, topology, f"{base_uri}/control", past, store)
            command = ["tianji.worlds.real", f"tj-{spec.name}"]
            children.spawn(
                spec.name, command, msgspec.json.encode(LocalAssignment(assignment, os.getpid(), tuple(map(str, sys.path))))
            )

        roles = {spec.name: spec for spec in topology.roles}
        policy = Policy(
            respawn=lambda name, life, steps, _: spawn(roles[name], Past(life, steps)),
            replaceable=frozenset(name for name, spec in roles.items() if spec.kind in ("actor", "buffer")),
            restarts=config.restarts,
            savers=frozenset(name for name, spec in roles.items() if spec.kind == "learner" and store is not None),
            save_every_s=config.checkpoint_seconds,
        )
        supervisor = Supervisor(control, children, frozenset(roles), listener, policy)
        stack.callback(supervisor.end)
        for spec in topology.roles:
            spawn(spec, job.past(spec, store))
        supervisor.supervise(stop_seconds)


@contextmanager
def control_socket() -> Iterator[tuple[zmq.Socket[bytes], str]]:
    """The socket at BASE/control that roles report to, and BASE: `ipc://` and a private directory, for other sockets."""
    with ExitStack() as stack:
        directory = tempfile.mkdtemp(prefix="tianji-", dir=_short_temporary_directory())
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        context: zmq.Context[zmq.Socket[bytes]] = stack.enter_context(zmq.Context())
        control = stack.enter_context(context.socket(zmq.ROUTER))
        control.setsockopt(zmq.LINGER, 0)
        control.setsockopt(zmq.RCVHWM, 0)
        control.bind(f"ipc://{directory}/control")
        yield control, f"ipc://{directory}"


def _short_temporary_directory() -> str | None:
    """A socket's path must fit in `zmq.IPC_PATH_MAX_LEN` bytes; a long TMPDIR gives way to /tmp."""
    return "/tmp" if len(tempfile.gettempdir()) + 40 > zmq.IPC_PATH_MAX_LEN else None
