"""One contract, every backend: the same tests run over `memory` and over `ipc`."""

import os
import tempfile
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
import zmq

from tianji.channel.arena import Arena, WeightStore, anonymous_file
from tianji.channel.base import ChannelError
from tianji.channel.bell import make_bell
from tianji.channel.registry import Network, SharedWeights
from tianji.messages import ChunkHeader, SlotRef

DEADLINE_S = 10
READERS = 3


def chunk(producer, sequence):
    return ChunkHeader(producer, sequence, 0, 7, 8, 0, 64, SlotRef(producer, sequence % 4))


def until(look, enough):
    """Collect until there is enough, waiting on the socket between looks."""
    found, deadline = [], time.monotonic() + DEADLINE_S
    while len(found) < enough:
        assert time.monotonic() < deadline, f"only {found} came"
        found += look()
    return found


class Bench:
    """A network of one backend, with addresses and a weight store."""

    def __init__(self, scheme, stack):
        self.network = stack.enter_context(Network())
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tj"))
        self.base = f"ipc://{folder}" if scheme == "ipc" else "memory://test"
        self.shared = None
        if scheme == "ipc":
            fd = anonymous_file("tianji-test", WeightStore.size_bytes(5))
            bells = tuple(make_bell() for _ in range(READERS))
            for descriptor in (fd, *bells):
                stack.callback(os.close, descriptor)
            store = WeightStore(fd, 5)
            stack.callback(store.close)
            self.shared = SharedWeights(store, bells)

    def publisher(self):
        return self.network.weights_outlet(f"{self.base}/w", self.shared)

    def reader(self, number=0):
        return self.network.weights_inlet(f"{self.base}/w", self.shared, number)


@pytest.fixture(params=["memory", "ipc"])
def bench(request):
    with ExitStack() as stack:
        yield Bench(request.param, stack)


def test_an_outlet_begins_with_its_slots_and_gets_them_once(bench):
    bench.network.inlet(f"{bench.base}/a")
    outlet = bench.network.outlet(f"{bench.base}/a", [SlotRef(0, 0), SlotRef(0, 1)])
    assert outlet.credits() == [SlotRef(0, 0), SlotRef(0, 1)]
    assert outlet.credits() == []


def test_chunks_arrive_whole_and_in_order_of_each_producer(bench):
    inlet = bench.network.inlet(f"{bench.base}/a")
    outlets = [bench.network.outlet(f"{bench.base}/a") for _ in range(3)]
    sent = {p: [chunk(p, s) for s in range(4)] for p in range(3)}
    for sequence in range(4):
        for producer, outlet in enumerate(outlets):
            outlet.send([sent[producer][sequence]])
    got = until(inlet.receive, 12)
    for producer in range(3):
        assert [c for c in got if c.producer == producer] == sent[producer]
    assert inlet.receive() == []


def test_a_release_gives_credit_to_the_sender_alone(bench):
    inlet = bench.network.inlet(f"{bench.base}/a")
    first, second = bench.network.outlet(f"{bench.base}/a"), bench.network.outlet(f"{bench.base}/a")
    first.send([chunk(0, 0), chunk(0, 1)])
    second.send([chunk(1, 0)])
    until(inlet.receive, 3)
    inlet.release([SlotRef(0, 1), SlotRef(1, 0)])
    assert until(first.credits, 1) == [SlotRef(0, 1)]
    assert until(second.credits, 1) == [SlotRef(1, 0)]


def test_credit_travels_back_along_a_chain(bench):
    middle_in, end_in = bench.network.inlet(f"{bench.base}/a"), bench.network.inlet(f"{bench.base}/b")
    start_out, middle_out = bench.network.outlet(f"{bench.base}/a"), bench.network.outlet(f"{bench.base}/b")
    start_out.send([chunk(0, 2)])
    middle_out.send(until(middle_in.receive, 1))
    (arrived,) = until(end_in.receive, 1)
    assert arrived == chunk(0, 2)
    assert start_out.credits() == []
    end_in.release([arrived.slot])
    middle_in.release(until(middle_out.credits, 1))
    assert until(start_out.credits, 1) == [arrived.slot]


def test_a_slot_cannot_be_released_twice(bench):
    inlet, outlet = bench.network.inlet(f"{bench.base}/a"), bench.network.outlet(f"{bench.base}/a")
    outlet.send([chunk(0, 0)])
    until(inlet.receive, 1)
    inlet.release([SlotRef(0, 0)])
    with pytest.raises(ChannelError, match="not held"):
        inlet.release([SlotRef(0, 0)])


def test_writing_without_credit_is_noticed(bench):
    inlet, outlet = bench.network.inlet(f"{bench.base}/a"), bench.network.outlet(f"{bench.base}/a")

    def reuse():
        outlet.send([chunk(0, 0)])
        outlet.send([chunk(0, 0)])
        until(inlet.receive, 2)

    with pytest.raises(ChannelError, match="twice"):
        reuse()


def test_the_latest_weights_win(bench):
    outlet, inlet = bench.publisher(), bench.reader()
    out = np.zeros(5, np.float32)
    assert inlet.latest(out) is None
    for version in range(10):
        outlet.publish(version, np.full(5, version, np.float32))
    assert inlet.latest(out) == 9
    assert out.tolist() == [9] * 5
    assert inlet.latest(out) is None
    outlet.publish(10, np.full(5, 10, np.float32))
    assert inlet.latest(out) == 10


def test_every_reader_reads_for_itself(bench):
    outlet, readers = bench.publisher(), [bench.reader(i) for i in range(READERS)]
    out = np.zeros(5, np.float32)
    outlet.publish(0, out)
    assert [reader.latest(out) for reader in readers] == [0] * READERS
    assert [reader.latest(out) for reader in readers] == [None] * READERS


def test_a_reader_that_joins_late_or_again_misses_nothing(bench):
    outlet = bench.publisher()
    outlet.publish(4, np.full(5, 4, np.float32))
    out = np.zeros(5, np.float32)
    for number in (0, 1, 1):
        assert bench.reader(number).latest(out) == 4
        assert out.tolist() == [4] * 5


def test_what_is_published_is_a_copy(bench):
    outlet, inlet = bench.publisher(), bench.reader()
    weights, out = np.ones(5, np.float32), np.zeros(5, np.float32)
    outlet.publish(0, weights)
    weights[:] = 7
    inlet.latest(out)
    assert out.tolist() == [1] * 5


def test_versions_must_rise(bench):
    outlet = bench.publisher()
    outlet.publish(3, np.zeros(5, np.float32))
    with pytest.raises(ChannelError, match="must rise"):
        outlet.publish(3, np.zeros(5, np.float32))


def test_a_poller_wakes_when_there_are_new_weights():
    with ExitStack() as stack:
        bench = Bench("ipc", stack)
        outlet, inlet = bench.publisher(), bench.reader()
        poller = zmq.Poller()
        poller.register(inlet.socket, zmq.POLLIN)
        assert not poller.poll(0)
        outlet.publish(0, np.zeros(5, np.float32))
        assert poller.poll(DEADLINE_S * 1000)
        inlet.latest(np.zeros(5, np.float32))
        assert not poller.poll(0)


def test_an_unknown_scheme_is_refused():
    with Network() as network, pytest.raises(ChannelError, match="known schemes: ipc, memory"):
        network.inlet("carrier-pigeon://a")


def test_slots_of_an_arena_are_apart_and_shared_between_mappings():
    fd = anonymous_file("tianji-test", Arena.size_bytes(3, 5000))
    try:
        with Arena(fd, 3, 5000) as ours, Arena(fd, 3, 5000) as theirs:
            for i in range(3):
                ours.slot(i)[:5000] = bytes([i + 1]) * 5000
            for i in range(3):
                assert bytes(theirs.slot(i)[:5000]) == bytes([i + 1]) * 5000
            with pytest.raises(IndexError, match="slot 3"):
                ours.slot(3)
    finally:
        os.close(fd)


def test_a_reader_never_keeps_a_torn_vector():
    """A writer overwrites as fast as it can while a reader checks that all elements are of one version."""
    size, rounds = 20_000, 3000
    fd = anonymous_file("tianji-test", WeightStore.size_bytes(size))
    store = WeightStore(fd, size)
    out = np.zeros(size, np.float32)
    store.write(0, out)

    def write():
        vector = np.zeros(size, np.float32)
        for version in range(1, rounds):
            vector[:] = version
            store.write(version, vector)

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while writer.is_alive() or not seen:
        version = store.read(out)
        assert out.min() == out.max() == version
        seen.append(version)
    writer.join()
    assert seen == sorted(seen)
    assert store.read(out) == rounds - 1
    store.close()
    os.close(fd)
