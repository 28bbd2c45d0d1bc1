"""One role in a process of its own: a poller over its sockets, and blocking waits only.

`python -m tianji.worlds.real NAME` reads its `Assignment` from standard input; the launcher starts it so.
"""

from __future__ import annotations

import signal
import sys
import time
import traceback

import msgspec
import zmq
from msgspec import Struct

from tianji.channel.arena import Arena, WeightStore
from tianji.channel.registry import Network, SharedWeights
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.launch.process import die_with_parent, name_process
from tianji.messages import PROTOCOL, Failed, FromRole, Hello, SlotRef, Start, Stop, decode_to_role, encode
from tianji.topology import RoleSpec, Topology, chunk_layout
from tianji.worlds.assembly import assemble
from tianji.worlds.host import Host


class Assignment(Struct, frozen=True):
    """All that a role process is told, by its launcher."""

    spec: RoleSpec
    config: TrainConfig
    describe: EnvDescription
    topology: Topology
    control_uri: str
    parent: int
    arena_fds: tuple[int, ...]
    """Descriptor of each actor's arena, inherited."""
    weights_fd: int
    bell_fds: tuple[int, ...]
    """Descriptor of each actor's bell, rung when there are new weights."""
    parameters: int


def main() -> int:
    """Run the role that standard input assigns; exit status 1 when it failed (it has told the launcher why)."""
    assignment = msgspec.json.decode(sys.stdin.buffer.read(), type=Assignment)
    name = assignment.spec.name
    die_with_parent(assignment.parent)
    # Ctrl-C reaches the whole process group; the launcher alone decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name_process(f"tj-{name}")
    with Network() as network:
        control = network.context.socket(zmq.DEALER)
        control.setsockopt(zmq.LINGER, 1000)
        control.setsockopt(zmq.SNDHWM, 0)
        control.connect(assignment.control_uri)
        try:
            run(assignment, network, control)
        except Exception as error:  # The launcher must hear of it, whatever it is; the traceback goes to our stderr.
            traceback.print_exc()
            control.send(encode(Failed(name, f"{type(error).__name__}: {error}")))
            return 1
        finally:
            control.close()
    return 0


def run(assignment: Assignment, network: Network, control: zmq.Socket[bytes]) -> None:
    """Assemble the role, wait for the start and serve until it ends."""
    config, describe, spec = assignment.config, assignment.describe, assignment.spec
    layout = chunk_layout(config, describe)
    arenas = [Arena(fd, config.chunk_slots, layout.capacity_bytes) for fd in assignment.arena_fds]
    store = WeightStore(assignment.weights_fd, assignment.parameters)

    def memory(slot: SlotRef) -> memoryview:
        return arenas[slot.arena].slot(slot.slot)

    def tell(message: FromRole) -> None:
        control.send(encode(message))

    shared = SharedWeights(store, assignment.bell_fds)
    host = assemble(spec, config, describe, assignment.topology, network, memory, shared, tell)
    try:
        tell(Hello(spec.name, PROTOCOL, assignment.parent))
        serve(host, control)
    finally:
        host.close()


def serve(host: Host, control: zmq.Socket[bytes]) -> None:
    """Wait for whatever comes, hand it to the host, and keep account of why it waited."""
    poller = zmq.Poller()
    poller.register(control, zmq.POLLIN)
    for end in host.endpoints:
        if end.socket is not None:
            poller.register(end.socket, zmq.POLLIN)
    begun = False
    clock, waited = time.monotonic_ns, host.account.wait_ns
    while not host.ended:
        cause = host.role.waiting_for() if begun else "barrier"
        before = clock()
        ready = dict(poller.poll())
        if begun:
            waited[cause] += clock() - before
        if control in ready:
            message = decode_to_role(control.recv())
            if isinstance(message, Start):
                begun = True
                host.begin()
            elif isinstance(message, Stop):
                host.stop(message.reason)
        while not host.ended and host.pump():
            pass


if __name__ == "__main__":
    sys.exit(main())
