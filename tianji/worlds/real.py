"""One role in a process of its own: a poller over its sockets, and blocking waits only.

`python -m tianji.worlds.real NAME` reads its `Assignment` from standard input; the launcher starts it so.
"""

from __future__ import annotations

import signal
import sys
import time
import traceback

import msgspec
from msgspec import Struct

from tianji.channel.registry import Network
from tianji.channel.waiter import Waiter
from tianji.channel.zmq import Control
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.launch.process import die_with_parent, name_process
from tianji.messages import PROTOCOL, Failed, FromRole, Hello, Start, Stop, decode_to_role, encode
from tianji.topology import RoleSpec, Topology
from tianji.worlds.assembly import Assembler
from tianji.worlds.host import Host


class Assignment(Struct, frozen=True):
    """All that a role process is told, by its launcher."""

    spec: RoleSpec
    config: TrainConfig
    describe: EnvDescription
    topology: Topology
    control_uri: str
    parent: int
    import_path: tuple[str, ...]
    """Where the launcher finds modules, and with them a user's own environment and network."""


def main() -> int:
    """Run the role that standard input assigns; exit status 1 when it failed (it has told the launcher why)."""
    assignment = msgspec.json.decode(sys.stdin.buffer.read(), type=Assignment)
    name = assignment.spec.name
    sys.path[:] = assignment.import_path
    die_with_parent(assignment.parent)
    # Ctrl-C reaches the whole process group; the launcher alone decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name_process(f"tj-{name}")
    with Network() as network, Control(network.context, assignment.control_uri) as control:
        try:
            run(assignment, network, control)
        except Exception as error:  # The launcher must hear of it, whatever it is; the traceback goes to our stderr.
            traceback.print_exc()
            control.send(encode(Failed(name, f"{type(error).__name__}: {error}")))
            return 1
    return 0


def run(assignment: Assignment, network: Network, control: Control) -> None:
    """Assemble the role, wait for the start and serve until it ends."""
    spec = assignment.spec

    def tell(message: FromRole) -> None:
        control.send(encode(message))

    host = Assembler(assignment.config, assignment.describe, assignment.topology, network, tell).build(spec)
    try:
        tell(Hello(spec.name, PROTOCOL, assignment.parent))
        serve(host, control)
    finally:
        host.close()


def serve(host: Host, control: Control) -> None:
    """Wait for whatever comes, hand it to the host, and keep account of why it waited."""
    begun = False
    clock, waited = time.monotonic_ns, host.account.wait_ns
    with Waiter([control, *host.endpoints]) as waiter:
        while not host.ended:
            # The launcher is heard between any two pieces of work, also by a role that never has to wait.
            for frame in control.receive():
                message = decode_to_role(frame)
                if isinstance(message, Start):
                    begun = True
                    host.begin()
                elif isinstance(message, Stop):
                    host.stop(message.reason)
            if host.ended or host.pump():
                continue
            cause = host.role.waiting_for() if begun else "barrier"
            before = clock()
            waiter.wait()
            if begun:
                waited[cause] += clock() - before


if __name__ == "__main__":
    sys.exit(main())
