"""A host before the start and at the end: what comes early is kept and does not call again, what comes late is counted."""

import time

import numpy as np
import pytest

from tianji.channel.base import EdgeSpec
from tianji.channel.registry import Network
from tianji.channel.waiter import Waiter
from tianji.layout import opaque_layout
from tianji.messages import Report, SlotRef
from tianji.roles.actor import Actor, Rollout, RolloutDone
from tianji.roles.role import Role, Work
from tianji.telemetry import Account
from tianji.worlds.host import Host

SPEC = EdgeSpec(opaque_layout(8), 2, 1)


class Instant:
    """A worker that is done at once, and remembers what it was asked."""

    def __init__(self):
        self.account, self.asked, self.flat = Account(), [], np.zeros(3, np.float32)

    def run(self, argument):
        self.asked.append(argument)
        return RolloutDone(argument.slot, 1, 0, 0)

    def weights(self):
        return self.flat

    def close(self):
        pass


def an_actors(network, inlet, publisher, told, address=None):
    """The host of an actor that waits for fresh weights."""
    return Host(
        Actor("actor", producer=0, layout=SPEC.layout.id, fresh_weights=True),
        Instant(),
        told.append,
        time.monotonic_ns,
        time.monotonic_ns,
        outlets={"chunks": network.outlet(inlet.uri, SPEC, 0)},
        weights_in=network.weights_inlet(publisher.uri, 3),
        address=address,
    )


def test_what_comes_before_the_start_is_kept_and_waited_for_once(tmp_path):
    told = []
    with Network() as network:
        inlet = network.inlet(f"shm://{tmp_path}/c", SPEC)
        publisher = network.weights_outlet(f"shm://{tmp_path}/w", 3)
        host = an_actors(network, inlet, publisher, told)
        publisher.publish(0, np.full(3, 5, np.float32))
        with Waiter(host.endpoints) as waiter, Waiter([inlet, publisher]) as others:
            for _ in range(20):
                others.wait(0.02)
                inlet.receive()
                publisher.serve()
                waiter.wait(0.02)
                assert not host.pump()
            assert not waiter.wait(0.1), "what was taken in already calls again"
        assert host.worker.asked == []
        host.begin()
        assert host.worker.asked == [Rollout(SlotRef(0, 0))]
        assert host.worker.flat.tolist() == [5] * 3
        host.close()


def test_weights_that_came_and_were_not_read_when_the_role_ends_are_counted(tmp_path):
    told = []
    with Network() as network:
        inlet = network.inlet(f"shm://{tmp_path}/c", SPEC)
        publisher = network.weights_outlet("tcp://127.0.0.1:0", 3)
        host = an_actors(network, inlet, publisher, told, address="127.0.0.2")
        host.begin()
        publisher.publish(0, np.zeros(3, np.float32))
        deadline = time.monotonic() + 10
        with Waiter([*host.endpoints, inlet, publisher]) as waiter:

            def until(condition):
                while not condition():
                    assert time.monotonic() < deadline
                    waiter.wait(0.02)
                    publisher.serve()
                    inlet.receive()

            until(lambda: (host.pump(), host.role.chunks == 1)[1])
            publisher.publish(1, np.ones(3, np.float32))
            until(lambda: host.weights_in.pending())
            host.stop("enough")
        assert host.ended
        assert host.worker.flat.tolist() == [0] * 3, "read after all: the test shows nothing"
        assert told[-1].counters["payload_bytes_sent"] == 2 * 3 * 4
        host.close()


class Twice(Role):
    """Asks for two pieces of work at once."""

    def table(self):
        return ()

    def absorb(self, event):
        return [Work(1), Work(2)]

    def waiting_for(self):
        return "samples"


def test_a_second_piece_of_work_is_an_error_and_not_dropped():
    worker = Instant()
    host = Host(Twice("busy"), worker, lambda message: None, time.monotonic_ns, time.monotonic_ns)
    with pytest.raises(RuntimeError, match="busy asked for two pieces of work at once"):
        host.begin()
    assert worker.asked == []


def test_what_its_edges_dropped_stands_in_a_role_s_report(tmp_path):
    told = []
    with Network() as network:
        inlet = network.inlet(f"shm://{tmp_path}/c", SPEC)
        publisher = network.weights_outlet(f"shm://{tmp_path}/w", 3)
        host = an_actors(network, inlet, publisher, told)
        host.begin()
        host.outlets["chunks"].counters["malformed"] += 2
        host.weights_in.counters["malformed"] += 1
        host.stop("steps")
        host.close()
    (report,) = (message for message in told if isinstance(message, Report))
    assert report.counters["channel_malformed"] == 3
