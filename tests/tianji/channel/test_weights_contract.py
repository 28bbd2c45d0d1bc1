"""The contract of a weights edge, over every backend: the latest wins, everybody reads for themselves."""

import numpy as np
import pytest
from edges import DEADLINE_S, PARAMETERS, vector

from tianji.channel.base import ChannelError
from tianji.channel.waiter import Waiter


def test_the_latest_weights_win(bench):
    outlet = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
    inlet = bench.keep(bench.channels.weights_inlet(outlet.uri, PARAMETERS))
    out = np.zeros(PARAMETERS, np.float32)

    def read():
        outlet.serve()
        return inlet.latest(out)

    bench.quiet(0.05)
    assert read() is None
    for version in range(10):
        outlet.publish(version, vector(version))
    seen = []
    bench.until(lambda: (seen.append(read()), seen[-1] == 9)[1])
    assert out.tolist() == [9] * PARAMETERS
    assert [v for v in seen if v is not None] == sorted(v for v in seen if v is not None)
    assert read() is None
    outlet.publish(10, vector(10))
    bench.until(lambda: read() == 10)
    assert out.tolist() == [10] * PARAMETERS


def test_every_reader_reads_for_itself_and_late_ones_miss_nothing(bench):
    outlet = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
    early = [bench.keep(bench.channels.weights_inlet(outlet.uri, PARAMETERS)) for _ in range(2)]
    nothing = np.zeros(PARAMETERS, np.float32)
    bench.until(lambda: [r.latest(nothing) for r in early] == [None, None] and (outlet.serve(), outlet.readers() == 2)[1])
    outlet.publish(4, vector(4))
    late = bench.keep(bench.channels.weights_inlet(outlet.uri, PARAMETERS))
    for reader in (*early, late):
        out = np.zeros(PARAMETERS, np.float32)
        bench.until(lambda reader=reader, out=out: (outlet.serve(), reader.latest(out) == 4)[1])
        assert out.tolist() == [4] * PARAMETERS
        assert reader.latest(out) is None
    bench.until(lambda: (outlet.serve(), outlet.readers() == 3)[1])
    bench.close(late)
    bench.until(lambda: (outlet.serve(), outlet.readers() == 2)[1])


def test_what_is_published_is_a_copy(bench):
    outlet = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
    inlet = bench.keep(bench.channels.weights_inlet(outlet.uri, PARAMETERS))
    weights, out = vector(1), vector(0)
    outlet.publish(0, weights)
    weights[:] = 7
    bench.until(lambda: (outlet.serve(), inlet.latest(out) == 0)[1])
    assert out.tolist() == [1] * PARAMETERS


def test_versions_must_rise(bench):
    outlet = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
    outlet.publish(3, vector(0))
    with pytest.raises(ChannelError, match="must rise"):
        outlet.publish(3, vector(0))


def test_a_publisher_that_left_and_came_back_unseen_is_found_again(bench):
    """The reader hears the farewell of the first one only when it is connected to the second."""
    outlet = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
    inlet = bench.keep(bench.channels.weights_inlet(outlet.uri, PARAMETERS))
    out = vector(0)
    outlet.publish(7, vector(7))
    bench.until(lambda: (outlet.serve(), inlet.latest(out) == 7)[1])
    uri = outlet.uri
    bench.close(outlet)
    bench.ends.remove(inlet)
    again = bench.patiently(lambda: bench.channels.weights_outlet(uri, PARAMETERS))
    again.publish(5, vector(5))
    # Longer than any attempt to connect again; the reader does nothing meanwhile.
    bench.quiet(1.0)
    bench.keep(inlet)
    bench.until(lambda: (again.serve(), inlet.latest(out) == 5)[1])
    assert out.tolist() == [5] * PARAMETERS


def test_a_publisher_that_starts_again_is_found_again(bench):
    outlet = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
    inlet = bench.keep(bench.channels.weights_inlet(outlet.uri, PARAMETERS))
    out = vector(0)
    outlet.publish(7, vector(7))
    bench.until(lambda: (outlet.serve(), inlet.latest(out) == 7)[1])
    uri = outlet.uri
    bench.close(outlet)
    assert inlet.latest(out) is None
    again = bench.patiently(lambda: bench.channels.weights_outlet(uri, PARAMETERS))
    # It resumed from a checkpoint of before: what it says now is the latest, though its version is lower.
    again.publish(5, vector(5))
    bench.until(lambda: (again.serve(), inlet.latest(out) == 5)[1])
    assert out.tolist() == [5] * PARAMETERS


def test_weights_that_nobody_read_before_their_publisher_ended_have_travelled(bench):
    outlet = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
    inlet = bench.keep(bench.channels.weights_inlet(outlet.uri, PARAMETERS))
    outlet.publish(0, vector(0))
    bench.until(lambda: (outlet.serve(), inlet.latest(vector(0)) == 0)[1])
    before = inlet.payload_bytes
    outlet.publish(1, vector(1))
    # The reader has said that it has room for another: this one goes to it before the publisher's farewell.
    bench.until(lambda: (outlet.serve(), inlet.pending())[1])
    bench.close(outlet)
    through_a_socket = not outlet.uri.startswith(("shm://", "memory://"))
    size = PARAMETERS * 4 if through_a_socket else 0
    assert before == size
    bench.until(lambda: (inlet.settle(), inlet.payload_bytes == 2 * size)[1])


def test_a_reader_of_another_network_is_refused(bench):
    outlet = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
    inlet = bench.channels.weights_inlet(outlet.uri, PARAMETERS + 1)
    with pytest.raises(ChannelError, match="6 parameters"):
        bench.until(lambda: (outlet.serve(), inlet.latest(np.zeros(6, np.float32)))[1])
    assert outlet.counters["refused"] == 1


def test_a_wait_ends_when_there_are_new_weights(bench):
    outlet = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
    inlet = bench.keep(bench.channels.weights_inlet(outlet.uri, PARAMETERS))
    out = vector(0)
    outlet.publish(0, out)
    bench.until(lambda: (outlet.serve(), inlet.latest(out) == 0)[1])
    with Waiter([inlet, outlet]) as waiter:
        for version in range(1, 4):
            while waiter.wait(0.05):
                outlet.serve()
                assert inlet.latest(out) is None
            outlet.publish(version, vector(version))
            while inlet.latest(out) != version:
                assert waiter.wait(DEADLINE_S)
                outlet.serve()


def test_ends_that_are_not_heeded_do_not_end_a_wait_and_lose_nothing(bench):
    outlets = [bench.keep(bench.channels.weights_outlet(bench.address(name), PARAMETERS)) for name in "ab"]
    inlets = [bench.keep(bench.channels.weights_inlet(outlet.uri, PARAMETERS)) for outlet in outlets]
    out = vector(0)

    def serve():
        for outlet in outlets:
            outlet.serve()

    for outlet in outlets:
        outlet.publish(0, out)
    waiting = set(inlets)
    bench.until(lambda: (serve(), waiting.difference_update([end for end in inlets if end.latest(out) == 0]), not waiting)[2])
    bench.until(lambda: (serve(), not any(outlet.pending() for outlet in outlets))[1])
    with Waiter(inlets) as waiter:
        while waiter.wait(0.05):
            assert [inlet.latest(out) for inlet in inlets] == [None, None]
        waiter.heed(inlets[1:])
        outlets[0].publish(1, vector(1))
        assert not waiter.wait(0.1), "the first is not heeded"
        outlets[1].publish(1, vector(2))
        assert waiter.wait(DEADLINE_S) == [inlets[1]]
        assert inlets[1].latest(out) == 1
        waiter.heed(None)
        assert waiter.wait(DEADLINE_S) == [inlets[0]]
        assert inlets[0].latest(out) == 1
