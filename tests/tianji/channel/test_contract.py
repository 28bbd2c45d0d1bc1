"""The contract of a chunk edge, over every backend: shm, tcp, ipc, inproc and memory."""

import select
from contextlib import ExitStack

import numpy as np
import pytest
from edges import DEADLINE_S, PARAMETERS, SCHEMES, SLOTS, Bench, structured_spec, text

from suites.components.opaque import opaque_layout
from tianji.channel.base import ChannelError, EdgeSpec
from tianji.channel.registry import Channels
from tianji.channel.waiter import Waiter
from tianji.channel.zmq import Line
from tianji.messages import SlotRef


@pytest.fixture(params=SCHEMES)
def wide(request):
    """Room for bodies of several segments, and many producers."""
    with ExitStack() as stack:
        yield Bench(request.param, stack, size_bytes=5 << 20, slots=2, producers=16)


def test_a_producer_begins_with_its_slots_and_gets_them_once(bench):
    _, outlet = bench.pair()
    bench.quiet()
    assert bench.free[outlet] == [SlotRef(0, n) for n in range(SLOTS)]


def test_bodies_arrive_whole_and_in_order_of_each_producer(bench):
    inlet = bench.inlet()
    outlets = [bench.outlet(inlet, p) for p in range(3)]
    bench.until(lambda: all(len(bench.free[o]) == SLOTS for o in outlets))
    for sequence in range(SLOTS):
        for producer, outlet in enumerate(outlets):
            outlet.send([bench.write(outlet, sequence, text(10 * producer + sequence))])
    bench.until(lambda: len(bench.got[inlet]) == 3 * SLOTS)
    for producer in range(3):
        of_it = [c for c in bench.got[inlet] if c.producer == producer]
        assert [c.sequence for c in of_it] == list(range(SLOTS))
        assert [bench.body(inlet, c) for c in of_it] == [text(10 * producer + s) for s in range(SLOTS)]


def test_an_outlet_may_come_first(bench):
    if bench.scheme == "tcp":
        # An address that nobody has yet, known to be free a moment ago.
        first = bench.inlet()
        uri = first.uri
        bench.close(first)
    else:
        uri = bench.address("a")
    outlet = bench.outlet(uri)
    bench.quiet()
    assert bench.free[outlet] == []
    bench.inlet(uri)
    bench.until(lambda: len(bench.free[outlet]) == SLOTS)


def test_several_chunks_may_go_together(bench):
    inlet, outlet = bench.pair()
    outlet.send([bench.write(outlet, s, text(s)) for s in range(SLOTS)])
    bench.until(lambda: len(bench.got[inlet]) == SLOTS)
    assert [bench.body(inlet, c) for c in bench.got[inlet]] == [text(s) for s in range(SLOTS)]


def test_a_release_gives_credit_to_the_sender_alone(bench):
    inlet = bench.inlet()
    first, second = bench.outlet(inlet, 0), bench.outlet(inlet, 1)
    bench.until(lambda: len(bench.free[first]) == len(bench.free[second]) == SLOTS)
    first.send([bench.write(first, s) for s in range(2)])
    second.send([bench.write(second)])
    bench.until(lambda: len(bench.got[inlet]) == 3)
    bench.free.clear()
    inlet.release([SlotRef(0, 1), SlotRef(1, 0)])
    bench.until(lambda: bench.free[first] and bench.free[second])
    bench.quiet()
    assert (bench.free[first], bench.free[second]) == ([SlotRef(0, 1)], [SlotRef(1, 0)])


def test_without_release_there_is_no_more_credit(bench):
    inlet, outlet = bench.pair()
    outlet.send([bench.write(outlet, s) for s in range(SLOTS)])
    bench.until(lambda: len(bench.got[inlet]) == SLOTS)
    bench.quiet()
    assert bench.free[outlet] == []


def test_a_slot_that_is_away_cannot_be_sent(bench):
    _, outlet = bench.pair()
    header = bench.write(outlet)
    outlet.send([header])
    with pytest.raises(ChannelError, match="no credit"):
        outlet.send([header])


def test_a_slot_that_is_not_ones_own_cannot_be_written(bench):
    _, outlet = bench.pair()
    with pytest.raises(ChannelError, match="not this outlet's"):
        outlet.slot(SlotRef(1, 0))


def test_a_slot_cannot_be_released_or_read_twice(bench):
    inlet, outlet = bench.pair()
    outlet.send([bench.write(outlet)])
    bench.until(lambda: bench.got[inlet])
    inlet.release([SlotRef(0, 0)])
    with pytest.raises(ChannelError, match="not held"):
        inlet.release([SlotRef(0, 0)])
    with pytest.raises(ChannelError, match="not held"):
        inlet.body(SlotRef(0, 0))


def test_what_is_received_cannot_be_written_over(bench):
    """Between processes and in one: readers have a view for reading. (What came in a message is the inlet's own copy.)"""
    inlet, outlet = bench.pair()
    outlet.send([bench.write(outlet, 0, text(0))])
    bench.until(lambda: bench.got[inlet])
    assert inlet.body(SlotRef(0, 0)).readonly == (bench.scheme in ("shm", "memory"))


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 4 << 20, 5 << 20])
def test_empty_and_large_bodies(wide, size):
    inlet, outlet = wide.pair()
    body = np.random.default_rng(size).bytes(size)
    for sequence in range(3):
        wide.until(lambda: wide.free[outlet])
        outlet.send([wide.write(outlet, sequence, body)])
        wide.until(lambda: wide.got[inlet])
        (chunk,) = wide.got.pop(inlet)
        assert (chunk.sequence, wide.body(inlet, chunk)) == (sequence, body)
        inlet.release([chunk.slot])


def test_many_producers(wide):
    inlet = wide.inlet()
    outlets = [wide.outlet(inlet, p) for p in range(16)]
    wide.until(lambda: all(len(wide.free[o]) == 2 for o in outlets))
    for number in range(48):
        outlet = outlets[number % 16]
        wide.until(lambda outlet=outlet: wide.free[outlet])
        outlet.send([wide.write(outlet, number // 16, text(number))])
        if number >= 16:
            wide.until(lambda: wide.got[inlet])
            chunk = wide.got[inlet].pop(0)
            assert wide.body(inlet, chunk) == text(chunk.sequence * 16 + chunk.producer)
            inlet.release([chunk.slot])
    wide.until(lambda: len(wide.got[inlet]) == 16)


def test_fields_of_a_layout(bench):
    spec = structured_spec()
    inlet = bench.inlet(spec=spec)
    outlet = bench.outlet(inlet, spec=spec)
    bench.until(lambda: bench.free[outlet])
    views = spec.layout.views(outlet.slot(SlotRef(0, 0)))
    views["reward"][:] = np.arange(8)
    views["extra"][:2] = 7
    size = spec.layout.size_bytes(2)
    outlet.send([bench.write(outlet, 0, layout=spec.layout.id, ragged_rows=2, size_bytes=size)])
    bench.until(lambda: bench.got[inlet])
    seen = spec.layout.views(inlet.body(SlotRef(0, 0)))
    assert seen["reward"].tolist() == list(range(8))
    assert seen["extra"][:2].tolist() == [[7] * 3] * 2


@pytest.mark.parametrize(
    "wrong", [{"size_bytes": 3}, {"ragged_rows": 65, "size_bytes": 65}, {"layout": 1}, {"size_bytes": 1 << 40}]
)
def test_a_header_that_contradicts_the_layout_is_counted_and_dropped(bench, wrong):
    inlet, outlet = bench.pair()
    outlet.send([bench.write(outlet, 0, text(0), **wrong)])
    outlet.send([bench.write(outlet, 1, text(1))])
    bench.until(lambda: bench.got[inlet])
    bench.quiet()
    assert [c.sequence for c in bench.got[inlet]] == [1]
    assert inlet.counters["malformed"] == 1


def test_a_relay_passes_bodies_on_and_credit_back(bench):
    middle, end = bench.inlet("a"), bench.inlet("b")
    start, relay = bench.outlet(middle), bench.relay(end, middle)
    bench.until(lambda: len(bench.free[start]) == SLOTS)
    for number in range(3 * SLOTS):
        bench.until(lambda: bench.free[start])
        start.send([bench.write(start, number, text(number))])
        bench.until(lambda: bench.got[middle])
        relay.send(bench.got.pop(middle))
        bench.until(lambda: bench.got[end])
        (chunk,) = bench.got.pop(end)
        assert (chunk.sequence, bench.body(end, chunk)) == (number, text(number))
        end.release([chunk.slot])
        bench.until(lambda: bench.free[relay])
        middle.release(bench.free.pop(relay))
    bench.until(lambda: len(bench.free[start]) == SLOTS)


def test_what_a_relay_sends_waits_for_its_inlet(bench):
    middle, end = bench.inlet("a"), bench.inlet("b")
    uri = end.uri
    start, relay = bench.outlet(middle), bench.relay(end, middle)
    bench.until(lambda: len(bench.free[start]) == SLOTS)
    bench.close(end)
    bench.quiet(0.05)
    start.send([bench.write(start, s, text(s)) for s in range(SLOTS)])
    bench.until(lambda: len(bench.got[middle]) == SLOTS)
    for chunk in bench.got.pop(middle):
        relay.send([chunk])
    bench.quiet(0.05)
    assert relay.credits() == []
    end = bench.inlet(uri)
    bench.until(lambda: len(bench.got[end]) == SLOTS)
    assert [bench.body(end, c) for c in bench.got[end]] == [text(s) for s in range(SLOTS)]
    # Once more, with all of it lost on the way: the relay gets it back, and can give it back.
    bench.close(end)
    bench.quiet(0.05)
    bench.inlet(uri)
    bench.until(lambda: len(bench.free[relay]) == SLOTS)
    middle.release(bench.free.pop(relay))
    bench.until(lambda: len(bench.free[start]) == SLOTS)


def test_nobody_is_welcomed_before_the_relay_is(bench):
    """Until then the middle cannot know which slots are being read behind it."""
    if bench.scheme == "memory":
        pytest.skip("memory: one process, which nothing can outlive")
    middle, end = bench.inlet("a"), bench.inlet("b")
    uri = end.uri
    bench.close(end)
    relay = bench.keep(bench.channels.relay(uri, bench.spec, middle))
    start = bench.outlet(middle)
    bench.quiet(0.05)
    assert not bench.free[start]
    bench.inlet(uri)
    bench.until(lambda: len(bench.free[start]) == SLOTS)
    assert relay.counters["malformed"] == 0


def test_a_middle_that_starts_again_keeps_from_its_producers_what_is_being_read_behind_it(bench):
    if bench.scheme == "memory":
        pytest.skip("memory: one process, which nothing can outlive")
    middle, end = bench.inlet("a"), bench.inlet("b")
    uri = middle.uri
    start, relay = bench.outlet(middle), bench.relay(end, middle)
    bench.until(lambda: len(bench.free[start]) == SLOTS)
    start.send([bench.write(start, s, text(s)) for s in range(3)])
    bench.until(lambda: len(bench.got[middle]) == 3)
    # Two go on and are being read, one is lost with the middle.
    relay.send(bench.got.pop(middle)[:2])
    bench.until(lambda: len(bench.got[end]) == 2)
    bench.close(relay)
    bench.close(middle)
    bench.quiet(0.05)
    middle = bench.inlet(uri)
    relay = bench.relay(end, middle)
    bench.until(lambda: len(bench.free[start]) == SLOTS - 2)
    while bench.free[start]:
        start.send([bench.write(start, 90 + len(bench.free[start]), b"successor")])
    bench.until(lambda: len(bench.got[middle]) == SLOTS - 2)
    assert [bench.body(end, chunk) for chunk in bench.got[end]] == [text(0), text(1)]
    end.release([chunk.slot for chunk in bench.got.pop(end)])
    # The successor is credited for what it never sent, and its producer for what it sent to its predecessor.
    bench.until(lambda: len(bench.free[relay]) == 2)
    middle.release(bench.free.pop(relay))
    bench.until(lambda: len(bench.free[start]) == 2)
    assert relay.counters["malformed"] == start.counters["malformed"] == 0


def test_a_producer_begins_without_what_is_reserved_and_gets_it_when_it_is_released(bench):
    inlet = bench.inlet()
    kept = [SlotRef(producer, n) for producer in (0, 1) for n in range(1, SLOTS)]
    inlet.reserve(kept, relayed=False)
    with pytest.raises(ChannelError, match="not held"):
        inlet.body(kept[0])
    first, second = bench.outlet(inlet, 0), bench.outlet(inlet, 1)
    bench.until(lambda: bench.free[first] and bench.free[second])
    bench.quiet()
    assert (bench.free[first], bench.free[second]) == ([SlotRef(0, 0)], [SlotRef(1, 0)])
    inlet.release([SlotRef(0, 2), SlotRef(1, 1)])
    bench.until(lambda: len(bench.free[first]) == len(bench.free[second]) == 2)
    first.send([bench.write(first, s, text(s)) for s in range(2)])
    bench.until(lambda: len(bench.got[inlet]) == 2)
    assert [bench.body(inlet, c) for c in bench.got[inlet]] == [text(0), text(1)]
    # A successor is not given what is reserved, nor what is being read.
    bench.close(first)
    again = bench.outlet(inlet, 0)
    bench.quiet()
    assert bench.free[again] == []
    inlet.release([c.slot for c in bench.got.pop(inlet)])
    bench.until(lambda: sorted(slot.slot for slot in bench.free[again]) == [0, 2])


def test_what_is_reserved_behind_a_relay_is_kept_from_its_producers(bench):
    end = bench.inlet("b")
    end.reserve([SlotRef(0, n) for n in range(2, SLOTS)], relayed=True)
    middle = bench.inlet("a")
    relay = bench.relay(end, middle)
    start = bench.outlet(middle)
    bench.until(lambda: bench.free[start])
    bench.quiet()
    assert bench.free[start] == [SlotRef(0, 0), SlotRef(0, 1)]
    end.release([SlotRef(0, SLOTS - 1)])
    bench.until(lambda: bench.free[relay])
    middle.release(bench.free.pop(relay))
    bench.until(lambda: len(bench.free[start]) == 3)
    start.send([bench.write(start, s, text(s)) for s in range(3)])
    bench.until(lambda: len(bench.got[middle]) == 3)
    relay.send(bench.got.pop(middle))
    bench.until(lambda: len(bench.got[end]) == 3)
    assert [bench.body(end, chunk) for chunk in bench.got[end]] == [text(s) for s in range(3)]
    assert relay.counters["malformed"] == start.counters["malformed"] == 0


def test_what_a_producer_sent_outlives_it(bench):
    inlet, outlet = bench.pair()
    outlet.send([bench.write(outlet, s, text(s)) for s in range(2)])
    bench.until(lambda: len(bench.got[inlet]) == 2)
    bench.close(outlet)
    bench.quiet()
    assert [bench.body(inlet, c) for c in bench.got[inlet]] == [text(0), text(1)]
    inlet.release([c.slot for c in bench.got[inlet]])


def test_a_producer_that_starts_again_gets_what_is_not_being_read(bench):
    inlet, outlet = bench.pair()
    outlet.send([bench.write(outlet, s, text(s)) for s in range(2)])
    bench.until(lambda: len(bench.got[inlet]) == 2)
    bench.close(outlet)
    again = bench.outlet(inlet)
    bench.until(lambda: len(bench.free[again]) == SLOTS - 2)
    again.send([bench.write(again, 2 + s, text(2 + s)) for s in range(SLOTS - 2)])
    bench.until(lambda: len(bench.got[inlet]) == SLOTS)
    # Nothing of what is held was written over, and all of it is credited to whoever is there now.
    assert [bench.body(inlet, c) for c in bench.got[inlet]] == [text(s) for s in range(SLOTS)]
    inlet.release([c.slot for c in bench.got[inlet]])
    bench.until(lambda: len(bench.free[again]) == SLOTS)


def test_an_inlet_that_starts_again_frees_what_was_lost_with_the_first(bench):
    inlet, outlet = bench.pair()
    kept = bench.free[outlet].pop()
    outlet.send([bench.write(outlet, 0), bench.write(outlet, 1)])
    bench.until(lambda: len(bench.got[inlet]) == 2)
    uri = inlet.uri
    bench.close(inlet)
    bench.quiet(0.05)
    again = bench.inlet(uri)
    bench.until(lambda: len(bench.free[outlet]) == SLOTS - 1)
    # What the producer has in hand is not handed out a second time.
    bench.quiet()
    assert kept not in bench.free[outlet]
    bench.free[outlet].append(kept)
    outlet.send([bench.write(outlet, 2 + s, text(s)) for s in range(SLOTS)])
    bench.until(lambda: len(bench.got[again]) == SLOTS)
    assert [bench.body(again, c) for c in bench.got[again]] == [text(s) for s in range(SLOTS)]


def test_a_second_start_of_a_member_replaces_the_first(bench):
    inlet, outlet = bench.pair()
    usurper = bench.outlet(inlet)
    bench.until(lambda: len(bench.free[usurper]) == SLOTS)
    outlet.send([bench.write(outlet, 7, text(7))])
    usurper.send([bench.write(usurper, 8, text(8))])
    bench.until(lambda: bench.got[inlet])
    bench.quiet()
    assert [c.sequence for c in bench.got[inlet]] == [8]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (EdgeSpec(opaque_layout(65), SLOTS, 3), "layout"),
        (EdgeSpec(opaque_layout(64), SLOTS + 1, 3), "slots"),
    ],
)
def test_ends_of_different_configurations_refuse_each_other(bench, other, said, caplog):
    inlet, outlet = bench.pair()
    stranger = bench.channels.outlet(inlet.uri, other, 1)
    with pytest.raises(ChannelError, match=f"refused.*{said}"):
        bench.until(lambda: stranger.credits())
    assert inlet.counters["refused"] == 1
    assert bench.scheme == "memory" or said in caplog.text
    stranger.close()
    outlet.send([bench.write(outlet, 0, text(0))])
    bench.until(lambda: bench.got[inlet])


def test_an_edge_has_no_place_for_more_producers_than_agreed(bench):
    inlet, _ = bench.pair()
    with pytest.raises(ChannelError, match="edge for 3 producers"):
        bench.outlet(inlet, 3)


def test_small_chunks_in_quick_succession_all_arrive(bench):
    """Some are kept back to go together: none for longer than until their process waits."""
    inlet, outlet = bench.pair()
    seen = []
    for sequence in range(500):
        while not bench.free[outlet]:
            bench.until(lambda: bench.got[inlet] or bench.free[outlet])
            seen += [c.sequence for c in bench.got[inlet]]
            inlet.release([c.slot for c in bench.got.pop(inlet, [])])
        outlet.send([bench.write(outlet, sequence)])
    bench.until(lambda: len(seen) + len(bench.got[inlet]) == 500)
    assert seen + [c.sequence for c in bench.got[inlet]] == list(range(500))


def test_a_wait_ends_when_something_comes_and_when_time_is_over(bench):
    inlet, outlet = bench.pair()
    bench.quiet()
    with Waiter([inlet]) as waiter:
        assert not waiter.wait(0.05)
        outlet.send([bench.write(outlet)])
        outlet.flush()
        assert waiter.wait(DEADLINE_S)
        assert len(inlet.receive()) == 1
        assert not waiter.wait(0.05)


@pytest.mark.parametrize("bench", ["shm", "tcp", "ipc", "curve"], indirect=True)
def test_an_end_that_closes_after_the_other_has_nobody_left_to_tell(bench, monkeypatch):
    """It would try to for a second, and its process with it."""
    lingers, close = [], Line.close
    monkeypatch.setattr(Line, "close", lambda line, linger_ms=None: lingers.append(linger_ms) or close(line, linger_ms))
    inlet, outlet = bench.pair()
    bench.quiet()
    bench.close(inlet)
    assert select.select(outlet.descriptors, [], [], DEADLINE_S)[0]
    bench.close(outlet)
    assert lingers == [0]
    inlet, outlet = bench.pair()
    bench.close(outlet)
    assert lingers == [0, None], "who is there is told"


def test_closing_twice_is_allowed(bench):
    inlet, outlet = bench.pair()
    publisher = bench.channels.weights_outlet(bench.address("w"), PARAMETERS)
    reader = bench.channels.weights_inlet(publisher.uri, PARAMETERS)
    for end in (inlet, outlet, publisher, reader):
        end.close()
        end.close()
    bench.ends.clear()
    # And the address can be used again.
    _, again = bench.pair()
    assert len(bench.free[again]) == SLOTS


def test_an_address_is_bound_once(bench):
    inlet, _ = bench.pair()
    if bench.scheme in ("shm", "ipc"):
        pytest.skip("a second bind to a socket's path takes it over, as ZeroMQ does")
    with pytest.raises(ChannelError, match="cannot bind"):
        bench.channels.inlet(inlet.uri, bench.spec)


@pytest.mark.parametrize("uri", ["carrier-pigeon://a", "tcp:/127.0.0.1:0", "", "shm://"])
def test_an_address_that_is_not_understood_is_refused(uri):
    with Channels() as channels, pytest.raises(ChannelError, match="known schemes: shm, tcp, ipc, inproc, memory"):
        channels.inlet(uri, EdgeSpec(opaque_layout(1), 1, 1))
