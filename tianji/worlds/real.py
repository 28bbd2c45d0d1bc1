"""Real world: one process of a run with one or more roles, which polls its sockets and waits without spinning.

The local launcher starts it as `python -m tianji.worlds.real NAME`, and it reads its `Assignment` from standard input. Other
launchers call `perform` in their own processes.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from programs.process import boot, die_with_parent, keep_freed_memory, name_process
from tianji.channel.base import Endpoint
from tianji.channel.registry import Channels
from tianji.channel.security import Keys
from tianji.channel.waiter import Waiter
from tianji.channel.zmq import Control
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.environments.place import Place
from tianji.faults import LASTING, told
from tianji.messages import (
    PROTOCOL,
    Failed,
    FromRole,
    Hello,
    Ping,
    Pong,
    PortsOpen,
    Report,
    Save,
    Snapshot,
    Start,
    Stop,
    Taken,
    Wiring,
    decode_to_role,
    encode,
)
from tianji.topology import RoleSpec, Topology
from tianji.worlds.assembly import Assembler, Past, Store
from tianji.worlds.host import Host, Trace
from tianji.worlds.snapshots import Snapshots
from tianji.worlds.threads import learner_threads


class Assignment(Struct, frozen=True):
    """Everything that a launcher tells a process."""

    specs: tuple[RoleSpec, ...]
    """Roles of the process. It is named after the first."""
    config: TrainConfig
    describe: EnvDescription
    topology: Topology
    """All roles, and the addresses of the edges at which the process has an end."""
    control_uri: str
    past: Past = Past()
    store: Store | None = None
    keys: tuple[str, str] | None = None
    """Public and secret key, if the run uses several hosts."""
    address: str | None = None
    """Address of its node, if there are several."""
    badge: bytes = b""
    """Secret by which the launcher identifies this process."""
    neighbours: dict[str, int] = {}
    """Number of roles on its node by kind, its own included."""
    place: str | None = None
    """File in which it notes what it does with its environments (`tianji.environments.place`)."""

    @property
    def name(self) -> str:
        """Name of the process for its launcher and for `ps`."""
        return self.specs[0].name


class LocalAssignment(Struct, frozen=True):
    """An assignment for a child of the launcher."""

    assignment: Assignment
    parent: int
    import_path: tuple[str, ...]
    """Import path of the launcher, by which a user's own environment and network are found."""


class Stopped(Exception):
    """The launcher stopped the run before this role began."""


def main() -> int:
    """Run the roles that standard input assigns. Exit status 1 if one failed, after telling the launcher why."""
    local = msgspec.json.decode(sys.stdin.buffer.read(), type=LocalAssignment)
    sys.path[:] = local.import_path
    die_with_parent(local.parent)
    # Ctrl-C reaches the whole process group, but only the launcher decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name_process(f"tj-{local.assignment.name}")
    logging.basicConfig(format=f"%(levelname)s: {local.assignment.name}: %(message)s")
    return 0 if perform(local.assignment) else 1


def perform(assignment: Assignment, trace: Trace | None = None) -> bool:
    """Run the roles to their end. False if one failed; the launcher knows why.

    Parameters
    ----------
    trace
        receives all their events and effects.
    """
    keys = None if assignment.keys is None else Keys(*(key.encode() for key in assignment.keys))
    with (
        np.errstate(all="ignore"),  # What is not finite is looked for once a round.
        Channels(keys, plaintext=not assignment.config.encrypt) as channels,
        Control(channels.context, assignment.control_uri, channels.security, assignment.badge) as control,
    ):
        try:
            run(assignment, channels, control, trace)
        except Stopped:
            return True
        except Exception as error:  # The launcher must hear of it, whatever it is.
            lasting = isinstance(error, LASTING)
            control.send(encode(Failed(assignment.name, told(error), lasting, traceback.format_exc())))
            return False
    return True


def run(assignment: Assignment, channels: Channels, control: Control, trace: Trace | None = None) -> None:
    """Assemble the roles, wait for the start and serve until they end."""
    specs, topology = assignment.specs, assignment.topology

    def send(message: FromRole) -> None:
        control.send(encode(message))

    snapshots = Snapshots(send)

    def tell(message: FromRole) -> None:
        match message:
            case Snapshot():
                snapshots.send(message)
            case Report():
                snapshots.finish()
                more = {"snapshots_dropped": float(snapshots.dropped)} if snapshots.dropped else {}
                send(msgspec.structs.replace(message, counters={**message.counters, **more}))
            case _:
                send(message)

    if not assignment.config.rule.alternates:
        # A learner's threads wait for each other asleep, and not in a loop on a core that an actor needs. torch reads this
        # when it is imported, which building its updater does.
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    place = None if assignment.place is None else Place(Path(assignment.place))
    assembler = Assembler(
        assignment.config, assignment.describe, topology, channels, tell, trace=trace, store=assignment.store, place=place
    )
    if topology.open_ports:
        # Addresses between nodes are known when all processes there have bound their ports.
        tell(PortsOpen(assignment.name, PROTOCOL, assembler.bind(*specs)))
        assembler.wire(_wiring(control))
    hosts = [assembler.build(spec, assignment.past) for spec in specs]
    for host in hosts:
        host.address, host.leads = assignment.address, host is hosts[0]
        # Others may share its core, so that a duration by the clock would say nothing of the work.
        host.processor = time.thread_time_ns
    if specs[0].kind == "learner" and (torch := sys.modules.get("torch")) is not None:
        around = [assignment.neighbours.get(kind, 0) for kind in ("actor", "learner")]
        torch.set_num_threads(learner_threads(assignment.config, assignment.describe.features, *around))
        keep_freed_memory()
    try:
        tell(Hello(assignment.name, PROTOCOL, os.getpid(), boot(), time.monotonic_ns()))
        serve(hosts, control, snapshots)
    finally:
        for host in hosts:
            host.close()


def _wiring(control: Control) -> dict[str, str]:
    """Wait for addresses that others have bound, from the launcher."""
    with Waiter([control]) as waiter:
        while True:
            for frame in control.receive():
                match decode_to_role(frame):
                    case Wiring(addresses=addresses):
                        return addresses
                    case Stop():
                        raise Stopped
            waiter.wait()


def serve(hosts: Sequence[Host], control: Control, snapshots: Snapshots | None = None) -> None:
    """Wait for arrivals, hand them to the hosts, and account for the waiting time by cause.

    The process ends with its first host, by whose report the launcher knows the process. So the first host is stopped when the
    others have ended, and no report of theirs is lost.

    Parameters
    ----------
    snapshots
        what a learner sends, which the launcher acknowledges.
    """
    begun = False
    asked: str | None = None
    rang: Sequence[Endpoint] | None = None
    clock = time.monotonic_ns
    first = hosts[0]
    with Waiter([control, *(end for host in hosts for end in host.endpoints)]) as waiter:
        while not first.ended:
            # Messages of the launcher are read between any two pieces of work, also if a role never waits.
            for frame in control.receive():
                match decode_to_role(frame):
                    case Start():
                        begun = True
                        for host in hosts:
                            host.begin()
                    case Save():
                        first.save()
                    case Ping():
                        control.send(encode(Pong(first.role.name)))
                    case Taken() if snapshots is not None:
                        snapshots.taken()
                    case Stop(reason=asked):
                        for host in hosts[1:]:
                            host.stop(asked)
            if asked is not None and all(host.ended for host in hosts[1:]):
                first.stop(asked)
                asked = None
            # All hosts, because edges within a process use no socket.
            moved = [not host.ended and host.pump(rang) for host in hosts]
            if first.ended or any(moved):
                # Ends that did not ring are checked before the next sleep. A Root has many, and mostly one of them rings.
                rang = first.heeded if first.worked else None if len(hosts) > 1 else rang
                continue
            for host in hosts:
                host.tell_kept()
            causes = [host.role.waiting_for() if begun else "barrier" for host in hosts]
            before = clock()
            heeded = first.heeded
            waiter.heed(None if heeded is None else [control, *heeded])
            rang = waiter.wait()
            if begun:
                waited = clock() - before
                for host, cause in zip(hosts, causes, strict=True):
                    host.account.wait_ns[cause] += waited


if __name__ == "__main__":
    sys.exit(main())
