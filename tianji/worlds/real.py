"""One role in a process of its own: a poller over its sockets, and blocking waits only.

`python -m tianji.worlds.real NAME` reads its `Assignment` from standard input; the local launcher starts it so. Other
launchers call `perform` in a process of theirs.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from programs.process import die_with_parent, name_process
from tianji.channel.base import Endpoint
from tianji.channel.registry import Network
from tianji.channel.security import Keys
from tianji.channel.waiter import Waiter
from tianji.channel.zmq import Control
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.messages import PROTOCOL, Bound, Failed, FromRole, Hello, Save, Start, Stop, Wiring, decode_to_role, encode
from tianji.topology import RoleSpec, Topology
from tianji.worlds.assembly import Assembler, Past, Store
from tianji.worlds.host import Host


class Assignment(Struct, frozen=True):
    """All that a role process is told, by its launcher."""

    spec: RoleSpec
    config: TrainConfig
    describe: EnvDescription
    topology: Topology
    control_uri: str
    past: Past = Past()
    store: Store | None = None
    keys: tuple[str, str] | None = None
    """Public and secret, of a run that crosses hosts."""
    address: str | None = None
    """Of the node that it is on, where there are several."""
    beside: dict[str, int] = {}
    """Roles on its node, itself too, by kind."""


class LocalAssignment(Struct, frozen=True):
    """An assignment for a child of the launcher."""

    assignment: Assignment
    parent: int
    import_path: tuple[str, ...]
    """Where the launcher finds modules, and with them a user's own environment and network."""


class Stopped(Exception):
    """The launcher stopped the run before this role had begun."""


def main() -> int:
    """Run the role that standard input assigns; exit status 1 when it failed (it has told the launcher why)."""
    local = msgspec.json.decode(sys.stdin.buffer.read(), type=LocalAssignment)
    sys.path[:] = local.import_path
    die_with_parent(local.parent)
    # Ctrl-C reaches the whole process group; the launcher alone decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name_process(f"tj-{local.assignment.spec.name}")
    return 0 if perform(local.assignment) else 1


def perform(assignment: Assignment) -> bool:
    """Play the role to its end; False when it failed (the launcher has been told why)."""
    name = assignment.spec.name
    keys = None if assignment.keys is None else Keys(*(key.encode() for key in assignment.keys))
    with (
        Network(keys, plaintext=not assignment.config.encrypt) as network,
        Control(network.context, assignment.control_uri, network.security) as control,
    ):
        try:
            run(assignment, network, control)
        except Stopped:
            return True
        except Exception as error:  # The launcher must hear of it, whatever it is; the traceback goes to our stderr.
            traceback.print_exc()
            control.send(encode(Failed(name, f"{type(error).__name__}: {error}")))
            return False
    return True


def run(assignment: Assignment, network: Network, control: Control) -> None:
    """Assemble the role, wait for the start and serve until it ends."""
    spec, topology = assignment.spec, assignment.topology

    def tell(message: FromRole) -> None:
        control.send(encode(message))

    assembler = Assembler(assignment.config, assignment.describe, topology, network, tell, store=assignment.store)
    if topology.open_ports:
        # Where the others are is known when all have bound their ports.
        tell(Bound(spec.name, PROTOCOL, assembler.bind(spec)))
        assembler.wire(_wiring(control))
    host = assembler.build(spec, assignment.past)
    host.address = assignment.address
    if spec.kind == "learner" and (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(learner_threads(assignment, len(os.sched_getaffinity(0))))
    try:
        tell(Hello(spec.name, PROTOCOL, os.getpid()))
        serve(host, control)
    finally:
        host.close()


def learner_threads(assignment: Assignment, cores: int) -> int:
    """Threads in which a learner computes with torch, on a host of so many cores: those that actors there leave free."""
    actors, learners = (assignment.beside.get(kind, 0) for kind in ("actor", "learner"))
    return assignment.config.learner_threads or max(1, (cores - actors) // max(1, learners))


def _wiring(control: Control) -> dict[str, str]:
    """What the launcher says when everybody has bound."""
    with Waiter([control]) as waiter:
        while True:
            for frame in control.receive():
                match decode_to_role(frame):
                    case Wiring(addresses=addresses):
                        return addresses
                    case Stop():
                        raise Stopped
            waiter.wait()


def serve(host: Host, control: Control) -> None:
    """Wait for whatever comes, hand it to the host, and keep account of why it waited."""
    begun = False
    rang: Sequence[Endpoint] | None = None
    clock, waited = time.monotonic_ns, host.account.wait_ns
    with Waiter([control, *host.endpoints]) as waiter:
        while not host.ended:
            # The launcher is heard between any two pieces of work, also by a role that never has to wait.
            for frame in control.receive():
                match decode_to_role(frame):
                    case Start():
                        begun = True
                        host.begin()
                    case Save():
                        host.save()
                    case Stop(reason=reason):
                        host.stop(reason)
            if host.ended or host.pump(rang):
                # Ends that did not ring are looked at before the next sleep: a Root has many, and mostly one of them rings.
                rang = host.heeded if host.worked else rang
                continue
            host.tell_kept()
            cause = host.role.waiting_for() if begun else "barrier"
            before = clock()
            heeded = host.heeded
            waiter.heed(None if heeded is None else [control, *heeded])
            rang = waiter.wait()
            if begun:
                waited[cause] += clock() - before


if __name__ == "__main__":
    sys.exit(main())
