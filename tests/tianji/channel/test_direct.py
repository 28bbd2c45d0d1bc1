"""Bodies between hosts over a connection of their own: how it comes about, ends, and is done without."""

import socket
from contextlib import ExitStack

import pytest
from edges import SLOTS, Bench, header, text

from suites.components.opaque import opaque_layout
from tianji.channel import direct, direct_inlet
from tianji.channel.base import EdgeSpec
from tianji.channel.waiter import Waiter
from tianji.channel.wire import SIZES
from tianji.messages import Batch, Credit, Direct, SlotRef, encode

LARGE = EdgeSpec(opaque_layout(1 << 18), 8, 1)


@pytest.fixture
def bench():
    with ExitStack() as stack:
        yield Bench("tcp", stack)


@pytest.fixture(params=["tcp", "curve"])
def either(request):
    with ExitStack() as stack:
        yield Bench(request.param, stack)


def through(bench, inlet, outlet, number=SLOTS):
    """Send bodies and return what arrived."""
    sent = [text(n) for n in range(number)]
    outlet.send([bench.write(outlet, n, body) for n, body in enumerate(sent)])
    bench.until(lambda: len(bench.got[inlet]) == number)
    chunks = bench.got.pop(inlet)
    bodies = [bench.body(inlet, chunk) for chunk in chunks]
    inlet.release([chunk.slot for chunk in chunks])
    bench.until(lambda: len(bench.free[outlet]) == SLOTS)
    return bodies == sent


def test_bodies_go_over_the_wire_and_credits_come_back_on_it(either):
    inlet, outlet = either.pair()
    assert through(either, inlet, outlet)
    (peer,) = inlet._wired.values()
    assert outlet._ready
    assert peer.wire is not None
    assert inlet.counters.total() == outlet.counters.total() == 0


def test_where_the_second_port_is_closed_bodies_travel_in_messages(bench, caplog):
    inlet = bench.inlet()
    inlet._wires.unregister(inlet._listener.fileno())
    port = inlet._listener.getsockname()[1]
    inlet._listener.close()
    inlet._listener = socket.create_server(("127.0.0.1", 0))  # Nobody is told of this one.
    inlet._admit, admit = lambda route, join: _with_port(admit(route, join), port), inlet._admit
    outlet = bench.outlet(inlet)
    bench.until(lambda: len(bench.free[outlet]) == SLOTS)
    assert through(bench, inlet, outlet)
    assert outlet.counters == {"indirect": 1}
    assert "bodies travel in its messages" in caplog.text


def _with_port(admitted, port):
    peer, shared = admitted
    peer.direct = Direct(port, peer.token, peer.key)
    return peer, shared


def test_where_nobody_answers_bodies_travel_in_messages(bench, monkeypatch):
    monkeypatch.setattr(direct, "ANSWER_S", 0.3)
    monkeypatch.setattr(direct_inlet.DirectInlet, "_identify", lambda self, fd: self._wires.modify(fd, 0))
    inlet, outlet = bench.pair()
    assert through(bench, inlet, outlet)
    assert outlet.counters == {"indirect": 1}


def test_what_waits_for_an_answer_when_an_outlet_closes_is_not_lost(bench, monkeypatch):
    monkeypatch.setattr(direct_inlet.DirectInlet, "_identify", lambda self, fd: self._wires.modify(fd, 0))
    inlet, outlet = bench.pair()
    outlet.send([bench.write(outlet, 0, text(0))])
    bench.close(outlet)
    bench.until(lambda: bench.got[inlet])
    assert [bench.body(inlet, chunk) for chunk in bench.got[inlet]] == [text(0)]


def test_a_wire_that_breaks_ends_the_session_and_the_next_one_has_another(either):
    inlet, outlet = either.pair()
    either.until(lambda: outlet._ready)
    first = outlet._wire
    first._socket.shutdown(socket.SHUT_RDWR)
    either.until(lambda: outlet._ready and outlet._wire is not first)
    assert outlet.counters["sessions_lost"] == 1
    assert through(either, inlet, outlet)
    assert len(inlet._wired) == 1


def test_slots_of_bodies_that_came_in_part_are_free_again(bench):
    inlet = bench.inlet(spec=LARGE)
    outlet = bench.outlet(inlet, spec=LARGE)
    bench.until(lambda: len(bench.free[outlet]) == LARGE.slots)
    chunk = bench.write(outlet, 0, bytes(LARGE.slot_bytes), layout=LARGE.layout.id)
    wire = outlet._wire
    wire.write(SIZES.pack(len(encode(Batch([chunk]))), LARGE.slot_bytes) + encode(Batch([chunk])), bytes(1 << 16))
    wire.push()
    bench.until(lambda: inlet._held)
    wire._socket.shutdown(socket.SHUT_RDWR)
    bench.until(lambda: not inlet._held)
    assert not bench.got[inlet]


def test_everything_arrives_from_an_outlet_that_closes_while_the_inlet_is_at_work(either):
    inlet = either.inlet(spec=LARGE)
    outlet = either.outlet(inlet, spec=LARGE)
    either.until(lambda: len(either.free[outlet]) == LARGE.slots)
    bodies = [bytes([n]) * LARGE.slot_bytes for n in range(3)]
    outlet.send([either.write(outlet, n, body, layout=LARGE.layout.id) for n, body in enumerate(bodies)])
    either.until(lambda: len(either.got[inlet]) >= 1)
    either.until(lambda: len(either.got[inlet]) == 3)
    outlet.send([either.write(outlet, 3 + n, body, layout=LARGE.layout.id) for n, body in enumerate(bodies)])
    inlet.release([chunk.slot for chunk in either.got.pop(inlet)])
    either.close(outlet)  # With credits that it has not read.
    either.until(lambda: len(either.got[inlet]) == 3)
    assert [either.body(inlet, chunk) for chunk in either.got[inlet]] == bodies
    either.until(lambda: not inlet._wired)


def test_everything_arrives_from_an_outlet_that_closes_before_the_inlet_gives_credit(bench):
    """Credit for an outlet that has gone cannot be sent. What it sent before is still there to be read."""
    inlet, outlet = bench.pair()
    bench.until(lambda: outlet._ready)
    outlet.send([bench.write(outlet, 0, text(0)), bench.write(outlet, 1, text(1))])
    bench.until(lambda: len(bench.got[inlet]) == 2)
    outlet.send([bench.write(outlet, 2, text(2)), bench.write(outlet, 3, text(3))])
    bench.close(outlet)
    for chunk in bench.got.pop(inlet):
        inlet.release([chunk.slot])
        inlet.flush()
    bench.until(lambda: len(bench.got[inlet]) == 2)
    assert [bench.body(inlet, chunk) for chunk in bench.got[inlet]] == [text(2), text(3)]
    bench.until(lambda: not inlet._members)


def test_all_producers_have_their_turn(bench, monkeypatch):
    monkeypatch.setattr(direct_inlet, "TURN_BYTES", 1 << 18)
    spec = EdgeSpec(opaque_layout(1 << 18), 8, 3)
    inlet = bench.inlet(spec=spec)
    outlets = [bench.outlet(inlet, n, spec) for n in range(3)]
    bench.until(lambda: all(outlet._ready for outlet in outlets))
    for outlet in outlets:
        for _ in range(8):
            outlet.send([bench.write(outlet, 0, bytes(spec.slot_bytes), layout=spec.layout.id)])
    turns = []
    while len(turns) < 18:
        turns += [chunk.producer for chunk in inlet.receive()]
        inlet.pending()
        for outlet in outlets:
            outlet.flush()
    assert {turns[:9].count(producer) for producer in range(3)} <= {2, 3, 4}


def test_an_inlet_that_takes_the_place_of_one_without_a_wire_has_one(bench, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(direct, "ANSWER_S", 0.1)
        patch.setattr(direct_inlet.DirectInlet, "_identify", lambda self, fd: self._wires.modify(fd, 0))
        inlet, outlet = bench.pair()
        bench.until(lambda: outlet.counters["indirect"])
    uri = inlet.uri
    bench.close(inlet)
    inlet = bench.inlet(uri)
    bench.until(lambda: outlet._ready)
    bench.free[outlet].sort(key=lambda slot: slot.slot)
    assert through(bench, inlet, outlet)


class Caller:
    """A connection to an inlet's second port."""

    def __init__(self, inlet, stack):
        self.socket = stack.enter_context(socket.create_connection(inlet._listener.getsockname()))

    def say(self, data):
        self.socket.sendall(data)

    def hung_up(self):
        self.socket.setblocking(False)
        try:
            return self.socket.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True


@pytest.fixture
def live(bench):
    """An edge at work, and what calls its second port."""
    inlet, outlet = bench.pair()
    bench.until(lambda: outlet._ready)
    with ExitStack() as stack:
        yield inlet, outlet, lambda: Caller(inlet, stack)
    assert through(bench, inlet, outlet)
    assert outlet.counters["sessions_lost"] == 0


@pytest.mark.parametrize(
    "said", [b"0123456789abcdef", b"GET / HTTP/1.1\r\n\r\n", bytes(1 << 20)], ids=["guess", "http", "flood"]
)
def test_a_caller_without_a_token_is_turned_away(bench, live, said):
    inlet, _, call = live
    caller = call()
    caller.socket.setblocking(False)
    caller.socket.send(said)
    bench.until(caller.hung_up)
    assert inlet.counters["refused"] == 1


def test_a_token_is_good_for_one_connection(bench, live):
    inlet, _, call = live
    (peer,) = inlet._wired.values()
    caller = call()
    caller.say(peer.token)
    bench.until(caller.hung_up)
    assert inlet.counters["refused"] == 1


def test_callers_that_say_nothing_are_few(bench, live):
    inlet, _, call = live
    callers = [call() for _ in range(60)]
    bench.until(lambda: inlet.counters["refused"] >= 60 - direct_inlet.STRANGERS - inlet._spec.producers)
    assert len(inlet._callers) <= direct_inlet.STRANGERS + inlet._spec.producers
    assert sum(caller.hung_up() for caller in callers) >= 60 - direct_inlet.STRANGERS - inlet._spec.producers


def admitted(bench, inlet, call, member):
    """A caller with a token of its own, as if another outlet had joined."""
    peer = direct_inlet.DirectPeer(b"nobody", _Joined(member), 1)
    inlet._expected[peer.token] = peer
    if member >= 0:
        peer.arenas[member] = inlet._land_in(member)
    caller = call()
    caller.say(peer.token)
    bench.until(lambda: peer.wire is not None)
    return peer, caller


class _Joined:
    incarnation = 5

    def __init__(self, member):
        self.member = member


def frame(message, size, body=b""):
    head = encode(message)
    return SIZES.pack(len(head), size) + head + body


def test_a_message_without_chunks_is_nothing(bench, live):
    inlet, _, call = live
    peer, caller = admitted(bench, inlet, call, 1)
    caller.say(frame(Batch([]), 0) + frame(Batch([header(bench.spec, 3)]), 6, b"third."))
    bench.until(lambda: bench.got[inlet])
    inlet.release([chunk.slot for chunk in bench.got.pop(inlet)])
    assert peer.wire is not None


def test_a_peer_that_does_not_read_its_credits_is_dropped(bench, live, monkeypatch):
    inlet, _, call = live
    peer, _ = admitted(bench, inlet, call, 1)
    monkeypatch.setattr(direct_inlet.Wire, "waiting", property(lambda self: 1000 if self is peer.wire else 0))
    inlet._tell(peer, [])
    assert peer.wire is None


def test_callers_wait_while_no_descriptor_is_free(bench, live, monkeypatch):
    inlet, _, call = live
    listener = inlet._listener

    class Full:
        def __getattr__(self, name):
            return getattr(listener, name)

        def accept(self):
            raise OSError(24, "Too many open files")

    first = call()
    bench.until(lambda: inlet._callers)
    monkeypatch.setattr(inlet, "_listener", Full())
    second = call()
    bench.quiet(0.05)
    assert not inlet.pending()
    monkeypatch.setattr(inlet, "_listener", listener)
    for caller in (first, second):
        caller.say(bytes(16))
        bench.until(caller.hung_up)


@pytest.mark.parametrize("kind", ["credit", "large", "announced", "garbage"])
def test_what_no_outlet_says_ends_its_connection(bench, live, kind):
    inlet, _, call = live
    peer, caller = admitted(bench, inlet, call, 1)
    caller.say(
        {
            "credit": frame(Credit([]), 0),
            "large": frame(Batch([header(bench.spec, size=1 << 40)]), 1 << 40),
            "announced": SIZES.pack(1 << 30, 0),
            "garbage": bytes(range(256)),
        }[kind]
    )
    bench.until(lambda: peer.wire is None)
    assert not bench.got[inlet]


@pytest.mark.parametrize("wrong", [{"slot": SlotRef(0, 1)}, {"slot": SlotRef(1, SLOTS)}, {"layout": 1}, {"ragged_rows": 5}])
def test_an_invalid_chunk_is_thrown_away_and_its_neighbours_arrive(bench, live, wrong):
    inlet, _, call = live
    peer, caller = admitted(bench, inlet, call, 1)
    chunks = [
        header(bench.spec, 0),
        header(bench.spec, **{"slot": 1, **wrong}),
        header(bench.spec, 2),
        header(bench.spec, 2),
    ]
    caller.say(frame(Batch(chunks), 24, b"first.wrong.secondagain."))
    caller.say(frame(Batch([header(bench.spec, 3)]), 6, b"third."))
    bench.until(lambda: len(bench.got[inlet]) == 3)
    assert [bench.body(inlet, chunk) for chunk in bench.got[inlet]] == [b"first.", b"second", b"third."]
    assert (inlet.counters["malformed"], inlet.counters["uncredited"]) == (1, 1)
    inlet.release([chunk.slot for chunk in bench.got.pop(inlet)])
    assert peer.wire is not None


def test_a_waiting_process_asks_again_when_an_end_is_due(bench, monkeypatch):
    """Nothing arrives, and the wait has no end of its own: the outlet's patience wakes it."""
    monkeypatch.setattr(direct, "ANSWER_S", 0.2)
    monkeypatch.setattr(direct_inlet.DirectInlet, "_identify", lambda self, fd: self._wires.modify(fd, 0))
    inlet = bench.inlet()
    outlet = bench.outlet(inlet)
    bench.until(lambda: outlet.due_s is not None)
    with Waiter([outlet]) as waiter:
        waiter.wait(0.5)
    assert outlet.counters["indirect"] == 1


# With keys


@pytest.fixture
def guarded():
    with ExitStack() as stack:
        bench = Bench("curve", stack)
        yield bench, *bench.pair(), stack


def test_whoever_knows_the_token_and_not_the_key_is_dropped(guarded):
    bench, inlet, outlet, stack = guarded
    bench.until(lambda: outlet._ready)
    peer = direct_inlet.DirectPeer(b"nobody", _Joined(1), 1, encrypted=True)
    inlet._expected[peer.token] = peer
    peer.arenas[1] = inlet._land_in(1)
    caller = Caller(inlet, stack)
    caller.say(peer.token)
    bench.until(lambda: peer.wire is not None)
    caller.say(frame(Batch([header(bench.spec, 0)]), 6, b"forged") + bytes(1 << 16))
    bench.until(lambda: peer.wire is None)
    assert not bench.got[inlet]
    assert through(bench, inlet, outlet)
    assert outlet.counters["sessions_lost"] == 0


def test_each_connection_has_a_key_of_its_own(guarded):
    bench, inlet, outlet, _ = guarded
    bench.until(lambda: outlet._ready)
    (first,) = inlet._wired.values()
    outlet._wire._socket.shutdown(socket.SHUT_RDWR)
    bench.until(lambda: outlet._ready and inlet._wired and first not in inlet._wired.values())
    (second,) = inlet._wired.values()
    assert len({first.key, second.key, None}) == 3


def test_an_outlet_with_keys_opens_no_connection_without_one(guarded):
    bench, inlet, _, _ = guarded
    inlet._encrypted = False  # As an inlet that was told to be without.
    outlet = bench.outlet(inlet, 1)
    bench.until(lambda: len(bench.free[outlet]) == SLOTS)
    assert through(bench, inlet, outlet)
    assert outlet._wire is None
