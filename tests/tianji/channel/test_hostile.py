"""A live channel under attack by malicious or broken clients: they are counted or ignored, and other peers are not affected."""

import socket
import struct
from contextlib import ExitStack

import numpy as np
import pytest
import zmq
from edges import PARAMETERS, SLOTS, Bench, header, text, vector
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suites.components.opaque import opaque_layout
from tianji.channel.base import ChannelError, EdgeSpec
from tianji.channel.registry import Channels
from tianji.channel.security import Keys
from tianji.messages import (
    PROTOCOL,
    Batch,
    Credit,
    Introduce,
    Join,
    Leave,
    Refused,
    Segment,
    Shared,
    SlotRef,
    Welcome,
    decode_edge,
    encode,
)


@pytest.fixture(params=["shm", "ipc", "tcp"])
def bench(request):
    with ExitStack() as stack:
        yield Bench(request.param, stack)


def transport(uri):
    return uri.replace("shm://", "ipc://")


class Stranger:
    """A bare socket of its own context, and the bench's live edge beside it."""

    def __init__(self, bench, stack, keys=None):
        self.bench = bench
        self.inlet, self.outlet = bench.pair()
        context = stack.enter_context(zmq.Context())
        self.socket = stack.enter_context(context.socket(zmq.DEALER))
        self.socket.linger = 0
        if keys is not None:
            keys(self.socket)
        self.socket.connect(transport(self.inlet.uri))
        self.sequence = 0

    def say(self, *frames):
        self.socket.send_multipart(frames)

    def answer(self):
        self.bench.until(lambda: self.socket.poll(0))
        return decode_edge(self.socket.recv())

    def join(self, member=1, incarnation=1, **wrong):
        spec = self.bench.spec
        fields = {
            "protocol": PROTOCOL,
            "incarnation": incarnation,
            "member": member,
            "layout": spec.layout.id,
            "slots": spec.slots,
            "slot_bytes": spec.slot_bytes,
        }
        self.say(encode(Join(**{**fields, **wrong})))

    def counted(self, kind, number=1):
        self.bench.until(lambda: self.inlet.counters[kind] >= number)

    def undisturbed(self):
        """What an honest producer sends comes whole, and its credit comes back."""
        for _ in range(2 * SLOTS):
            self.bench.until(lambda: self.bench.free[self.outlet])
            self.outlet.send([self.bench.write(self.outlet, self.sequence, text(self.sequence))])
            self.bench.until(lambda: self.bench.got[self.inlet])
            (chunk,) = self.bench.got.pop(self.inlet)
            assert (chunk.producer, chunk.sequence) == (0, self.sequence)
            assert self.bench.body(self.inlet, chunk) == text(self.sequence)
            self.inlet.release([chunk.slot])
            self.sequence += 1
        self.bench.until(lambda: len(self.bench.free[self.outlet]) == SLOTS)


@pytest.fixture
def stranger(bench):
    with ExitStack() as stack:
        yield Stranger(bench, stack)


def test_garbage(stranger):
    for frame in (b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", b"\xc1" * 100, encode(["not", "a", "message"]), b"\x92\x00"):
        stranger.say(frame)
        stranger.say(frame, frame, frame)
    stranger.counted("malformed", 12)
    stranger.undisturbed()


def test_a_message_cut_short(stranger):
    whole = encode(Batch([header(stranger.bench.spec)]))
    for length in range(len(whole)):
        stranger.say(whole[:length], b"")
    stranger.counted("malformed", len(whole))
    stranger.undisturbed()


def test_somebody_who_never_joined(stranger):
    stranger.say(encode(Batch([header(stranger.bench.spec)])), b"hello!")
    stranger.say(encode(Leave()))
    stranger.say(encode(Credit([SlotRef(0, 0)])))
    stranger.counted("late", 3)
    stranger.undisturbed()
    assert not stranger.socket.poll(0), "an unknown client was answered"


def test_another_protocol_is_told_so(stranger, caplog):
    stranger.join(protocol=PROTOCOL + 1, incarnation=77)
    answer = stranger.answer()
    assert isinstance(answer, Refused)
    assert answer.incarnation == 77
    assert f"protocol {PROTOCOL + 1}, the inlet {PROTOCOL}" in answer.reason
    assert answer.reason in caplog.text
    stranger.undisturbed()


def test_a_join_of_a_later_protocol_is_still_understood(stranger):
    """Its first fields keep their places, so that a refusal can be told whatever was added after them."""
    spec = stranger.bench.spec
    stranger.say(encode([2, PROTOCOL + 5, 9, 1, spec.layout.id, spec.slots, spec.slot_bytes, None, "new", {"more": 1}]))
    answer = stranger.answer()
    assert isinstance(answer, Refused)
    assert "protocol" in answer.reason


@pytest.mark.parametrize("member", [3, 1 << 40, -4, -(1 << 40)])
def test_a_member_that_has_no_place(stranger, member):
    stranger.join(member=member)
    assert "producers 0 to 2" in stranger.answer().reason
    stranger.undisturbed()


def test_messages_that_no_outlet_sends(stranger):
    if stranger.bench.scheme == "shm":
        pytest.skip("shm: a session has no more messages than join and leave; its rings are tested below")
    stranger.join()
    assert isinstance(stranger.answer(), Welcome)
    spec = stranger.bench.spec
    chunk = header(spec)
    wrong = (
        [encode(Credit([SlotRef(0, 0)]))],
        [encode(Welcome(1, []))],
        [encode(Introduce(1, 1, 1))],
        [encode(Batch([chunk]))],  # without a body
        [encode(Batch([chunk])), b"hello!", b"more"],
        [encode(Batch([chunk])), b"short"],
        [encode(Batch([header(spec, size=65, ragged_rows=65)])), bytes(65)],  # larger than a slot
        [encode(Batch([header(spec, slot=SLOTS)])), b"hello!"],  # a slot that there is not
        [encode(Batch([header(spec, producer=2)])), b"hello!"],  # a slot of somebody else
        [encode(Batch([header(spec, layout=5)])), b"hello!"],
        [encode(Segment(SlotRef(1, 0), 1)), b"a hole before it"],
        [encode(Segment(SlotRef(1, 0), 0)), bytes(65)],
        [encode(Segment(SlotRef(0, 0), 0)), b"in another's slot"],
        [encode(Segment(SlotRef(1 << 62, 1 << 62), 1 << 62)), b"far out"],
    )
    for n, frames in enumerate(wrong, 1):
        stranger.say(*frames)
        stranger.bench.until(lambda n=n: sum(stranger.inlet.counters.values()) >= n)
    assert stranger.bench.got[stranger.inlet] == []
    # And then it behaves, on the same connection.
    stranger.say(encode(Batch([chunk])), b"hello!")
    stranger.bench.until(lambda: stranger.bench.got[stranger.inlet])
    assert bytes(stranger.inlet.body(SlotRef(1, 0))[:6]) == b"hello!"
    stranger.bench.got.clear()
    stranger.say(encode(Batch([chunk])), b"again!")
    stranger.counted("uncredited")
    assert bytes(stranger.inlet.body(SlotRef(1, 0))[:6]) == b"hello!", "a body that is being read was written over"
    stranger.inlet.release([SlotRef(1, 0)])
    stranger.undisturbed()


def test_a_frame_too_large_to_take_in_is_refused_before_it_is_allocated(stranger):
    """Its connection ends, as libzmq does it; that of the others does not, and its own can be made again."""
    stranger.say(b"x" * (2 << 20))
    stranger.bench.quiet()
    stranger.undisturbed()
    stranger.join()
    assert isinstance(stranger.answer(), Welcome | Refused)


def test_a_flood_is_held_back(bench):
    """Whoever joined and then sends without credit fills its own queue, not our memory: the bound is the configuration's."""
    if bench.scheme == "shm":
        pytest.skip("a ring has a size")
    with ExitStack() as stack:
        stranger = Stranger(bench, stack)
        stranger.join()
        assert isinstance(stranger.answer(), Welcome)
        piece, sent = bytes(20_000), 0
        # Nobody takes anything in meanwhile; a second in which nothing more goes is the end of it. A thousand wait in the
        # stranger's own socket, some in the kernel's buffers, 40 in the inlet's queue.
        while sent < 4000 and stranger.socket.poll(1000, zmq.POLLOUT):
            stranger.say(encode(Segment(SlotRef(1, 0), 0)), piece)
            sent += 1
        assert sent < 2000
        bench.until(lambda: sum(stranger.inlet.counters.values()) >= 40)
        stranger.undisturbed()


def test_a_length_that_is_a_lie(bench):
    """ZMTP by hand: greeting, handshake, then a frame that claims 2^60 bytes."""
    if bench.scheme != "tcp":
        pytest.skip("the wire is the same")
    with ExitStack() as stack:
        live = Stranger(bench, stack)
        port = int(live.inlet.uri.rpartition(":")[2])
        raw = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        raw.settimeout(20)
        raw.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31))
        assert raw.recv(64)
        ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
        raw.sendall(b"\x04" + bytes([len(ready)]) + ready)
        raw.sendall(b"\x02" + struct.pack(">Q", 1 << 60) + b"x" * 1000)
        while raw.recv(4096):
            pass  # Until it hangs up on us.
        live.undisturbed()


@pytest.mark.parametrize(
    "shared",
    [
        None,
        Shared(1, 0, 0),  # another user's or another namespace's process, or one without such a descriptor
        Shared(2**31 - 1, 5, 6),  # no process
    ],
)
def test_shared_memory_that_is_none(shared):
    with ExitStack() as stack:
        stranger = Stranger(Bench("shm", stack), stack)
        stranger.join(shared=shared)
        assert isinstance(stranger.answer(), Refused)
        assert stranger.inlet.counters["refused"] == 1
        stranger.undisturbed()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(min_size=1, max_size=300), at=st.integers(0, 700))
def test_a_ring_that_is_written_over(noise, at):
    """A producer's process gone mad: its session ends or its frames are dropped, the others' go on."""
    with ExitStack() as stack:
        bench = Bench("shm", stack)
        live = Stranger(bench, stack)
        mad = bench.outlet(live.inlet, 2)
        bench.until(lambda: len(bench.free[mad]) == SLOTS)
        bench.ends.remove(mad)
        memory = mad._headers._words.obj
        view = memoryview(memory)
        view[at : at + len(noise)] = noise
        live.undisturbed()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=st.lists(st.lists(st.binary(max_size=60), min_size=1, max_size=3), max_size=8))
def test_any_bytes(stranger, frames):
    for message in frames:
        stranger.say(*message)
    stranger.undisturbed()


def test_a_reader_of_weights_that_speaks_nonsense():
    with ExitStack() as stack:
        bench = Bench("tcp", stack)
        outlet = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
        inlet = bench.keep(bench.channels.weights_inlet(outlet.uri, PARAMETERS))
        context = stack.enter_context(zmq.Context())
        stranger = stack.enter_context(context.socket(zmq.DEALER))
        stranger.linger = 0
        stranger.connect(outlet.uri)
        for frame in (b"", b"junk", encode(Leave()), encode(Credit([]))):
            stranger.send(frame)
        out = vector(0)
        for version in range(3):
            outlet.publish(version, vector(version))
            bench.until(lambda version=version: (outlet.serve(), inlet.latest(out) == version)[1])
        bench.until(lambda: (outlet.serve(), outlet.counters["malformed"] + outlet.counters["late"] >= 4)[1])
        assert not stranger.poll(0)


# Keys


@pytest.fixture
def guarded():
    keys = Keys.generate()
    with ExitStack() as stack:
        yield Bench("tcp", stack, keys=keys), keys, stack


def test_with_keys_everything_works_encrypted(guarded):
    bench, _, _ = guarded
    inlet, outlet = bench.pair()
    outlet.send([bench.write(outlet, 0, text(0))])
    bench.until(lambda: bench.got[inlet])
    assert bench.body(inlet, bench.got[inlet][0]) == text(0)
    weights = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
    reader = bench.keep(bench.channels.weights_inlet(weights.uri, PARAMETERS))
    weights.publish(3, vector(3))
    bench.until(lambda: (weights.serve(), reader.latest(np.zeros(PARAMETERS, np.float32)) == 3)[1])
    assert inlet._socket.mechanism == zmq.CURVE


def unknown_key(keys):
    """Knows the public key of the run, has a pair of its own."""

    def prepare(socket):
        socket.curve_serverkey = keys.public
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()

    return prepare


def wrong_server(keys):
    """Has the run's pair, but takes the other side for somebody else."""

    def prepare(socket):
        socket.curve_serverkey = zmq.curve_keypair()[0]
        socket.curve_publickey, socket.curve_secretkey = keys.public, keys.secret

    return prepare


def no_key(keys):
    return lambda socket: None


@pytest.mark.parametrize("kind", [unknown_key, wrong_server, no_key])
def test_an_unknown_client_gets_nothing(guarded, kind):
    bench, keys, stack = guarded
    stranger = Stranger(bench, stack, kind(keys))
    stranger.join(member=0)
    stranger.say(encode(Batch([header(bench.spec, producer=0)])), b"hello!")
    bench.quiet(0.5)
    stranger.undisturbed()
    assert not stranger.socket.poll(0), "an unknown client was answered"
    assert sum(stranger.inlet.counters.values()) == 0, "what an unknown client said was listened to"


def test_an_outlet_with_other_keys_is_told(guarded):
    bench, _, stack = guarded
    inlet, _ = bench.pair()
    # Whoever has other keys takes the run's inlet for somebody else, and hears no more than that it is not welcome: the
    # one who has a wrong pair and the right server's key is told by libzmq.
    other = stack.enter_context(Channels(keys=Keys.generate()))
    outlet = other.outlet(inlet.uri, bench.spec, 1)
    bench.quiet(0.3)
    assert outlet.credits() == []
    assert sum(inlet.counters.values()) == 0


def test_off_this_host_keys_are_asked_for():
    spec = EdgeSpec(opaque_layout(8), 1, 1)
    with Channels() as channels:
        for uri in ("tcp://*:0", "tcp://0.0.0.0:0", "tcp://[::]:0", "tcp://192.0.2.1:1", "tcp://node7:5000"):
            with pytest.raises(ChannelError, match="give the run's keys"):
                channels.inlet(uri, spec)
            with pytest.raises(ChannelError, match="give the run's keys"):
                channels.outlet(uri, spec, 0)
            with pytest.raises(ChannelError, match="give the run's keys"):
                channels.weights_inlet(uri, 1)


def test_plaintext_off_this_host_is_a_choice_and_logged(caplog):
    spec = EdgeSpec(opaque_layout(8), 1, 1)
    with Channels(plaintext=True) as channels:
        # Bound for a moment, spoken to by nobody.
        channels.inlet("tcp://0.0.0.0:0", spec).close()
    assert "PLAINTEXT" in caplog.text
