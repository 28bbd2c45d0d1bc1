"""A host before the start and at the end: early messages are kept and wake it once, late ones are counted."""

import time

import numpy as np
import pytest
from rules import rule

from suites.components.opaque import opaque_layout
from tianji.channel.base import EdgeSpec
from tianji.channel.registry import Channels
from tianji.channel.waiter import Waiter
from tianji.messages import Report, SlotRef
from tianji.roles.actor import Actor, Rollout, RolloutDone
from tianji.roles.role import Role, Work
from tianji.telemetry import Account, bin_of
from tianji.worlds import publication
from tianji.worlds.host import Host
from tianji.worlds.workers import Worker

SPEC = EdgeSpec(opaque_layout(8), 2, 1)


class Instant(Worker):
    """A worker that is done at once, and remembers what it was asked."""

    def __init__(self):
        super().__init__()
        self.asked, self.flat = [], np.zeros(3, np.float32)

    def work(self, argument):
        self.asked.append(argument)
        yield
        return RolloutDone(argument.slot, 1, 0, 0)

    def weights(self):
        return self.flat


def an_actors(channels, inlet, publisher, told, address=None):
    """The host of an actor that waits for fresh weights."""
    return Host(
        Actor("actor", producer=0, layout=SPEC.layout.id, discipline=rule("strict")),
        Instant(),
        told.append,
        time.monotonic_ns,
        time.monotonic_ns,
        outlets={"chunks": channels.outlet(inlet.uri, SPEC, 0)},
        weights_in=channels.weights_inlet(publisher.uri, 3),
        address=address,
    )


def test_what_comes_before_the_start_is_kept_and_waited_for_once(tmp_path):
    told = []
    with Channels() as channels:
        inlet = channels.inlet(f"shm://{tmp_path}/c", SPEC)
        publisher = channels.weights_outlet(f"shm://{tmp_path}/w", 3)
        host = an_actors(channels, inlet, publisher, told)
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
    with Channels() as channels:
        inlet = channels.inlet(f"shm://{tmp_path}/c", SPEC)
        publisher = channels.weights_outlet("tcp://127.0.0.1:0", 3)
        host = an_actors(channels, inlet, publisher, told, address="127.0.0.2")
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
            publisher.publish(2, np.ones(3, np.float32))
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
    with Channels() as channels:
        inlet = channels.inlet(f"shm://{tmp_path}/c", SPEC)
        publisher = channels.weights_outlet(f"shm://{tmp_path}/w", 3)
        host = an_actors(channels, inlet, publisher, told)
        host.begin()
        host.outlets["chunks"].counters["malformed"] += 2
        host.weights_in.counters["malformed"] += 1
        host.stop("steps")
        host.close()
    (report,) = (message for message in told if isinstance(message, Report))
    assert report.counters["channel_malformed"] == 3


class Steps(Instant):
    """A fragment of as many slices as it is let."""

    def __init__(self):
        super().__init__()
        self.renewals, self.wanted = [], None

    def work(self, argument):
        self.asked.append(argument)
        done = 0
        while done != self.wanted:
            yield
            done += 1
        return RolloutDone(argument.slot, done, 0, 0, tuple(self.renewals))

    def cut(self):
        self.wanted = 3

    def renewed(self, version):
        self.renewals.append((1, version))


@pytest.mark.parametrize("what", ["finish", "cut", "renew"])
def test_a_host_hears_while_it_works_and_weights_wait_until_they_are_wanted(what):
    with Channels() as channels:
        inlet, publisher = channels.inlet("memory://c", SPEC), channels.weights_outlet("memory://w", 3)
        host = an_actors(channels, inlet, publisher, [])
        host.burst_ns, host.worker = 0, Steps()
        host.role.discipline.when_weights_wait = what
        publisher.publish(0, np.full(3, 5, np.float32))
        host.begin()
        assert host.pump()
        assert host.working
        publisher.publish(publication.stamp_of(1, 1, closing=False), np.full(3, 6, np.float32))
        assert host.pump()
        assert host.worker.flat.tolist() == [6 if what == "renew" else 5] * 3
        assert host.worker.renewals == ([(1, 1)] if what == "renew" else [])
        if what == "cut":
            for _ in range(3):
                assert host.pump()
            # The next one is made with the weights that waited.
            (chunk,) = inlet.receive()
            assert (chunk.count, chunk.version) == (3, 0)
            assert len(host.worker.asked) == 2
        else:
            host.worker.wanted = 9
            while host.working:
                assert host.pump()
        assert host.worker.flat.tolist() == [5 if what == "finish" else 6] * 3
        host.close()


def test_whole_pieces_of_work_are_recorded_by_processor_time_over_all_bursts():
    used = iter(range(0, 10**9, 1000))
    with Channels() as channels:
        inlet, publisher = channels.inlet("memory://c", SPEC), channels.weights_outlet("memory://w", 3)
        host = an_actors(channels, inlet, publisher, [])
        host.burst_ns, host.worker, host.processor = 0, Steps(), used.__next__
        host.account = host.worker.account
        publisher.publish(0, np.full(3, 5, np.float32))
        host.begin()
        host.worker.wanted, host.worker.completed = 3, "fragment"
        while not host.working:
            host.pump()
        while host.working:
            host.pump()
        # Three slices and the end, each between two readings of the clock.
        assert host.account.took["fragment"] == {bin_of(4000): 1}
        host.close()


def test_bins_are_a_sixteenth_of_an_octave():
    assert [bin_of(ns) for ns in (0, 1, 2, 1 << 20)] == [0, 0, 16, 320]
    assert bin_of(1_000_000) - bin_of(500_000) == 16
    account = Account()
    for ns in (1000, 1001, 3000):
        account.record("round", ns)
    report = account.report("learner", {}, process=False)
    assert report.histograms == {"took_round": {bin_of(1000): 2, bin_of(3000): 1}}
    assert report.counters == {"took_round_s": pytest.approx(5001e-9)}


def test_what_a_role_asks_for_while_it_works_is_not_kept_back(tmp_path):
    with Channels() as channels:
        inlet, publisher = channels.inlet(f"shm://{tmp_path}/c", SPEC), channels.weights_outlet("memory://w", 3)
        host = an_actors(channels, inlet, publisher, [])
        host.burst_ns, host.worker = 0, Steps()
        flushed = []
        host.outlets["chunks"].flush = lambda: flushed.append(host.working)
        host.role.discipline.when_weights_wait = "renew"
        publisher.publish(0, np.zeros(3, np.float32))
        host.begin()
        with Waiter([*host.endpoints, inlet]) as waiter:
            while not host.working:
                waiter.wait(0.02)
                inlet.receive()
                host.pump()
        flushed.clear()
        host.pump()
        assert flushed == []
        publisher.publish(2, np.zeros(3, np.float32))
        host.pump()
        assert flushed == [True]
        host.close()
