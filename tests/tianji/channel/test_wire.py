"""A wire: messages with bodies over TCP, however the bytes are cut, and whatever comes."""

import socket
import time
from contextlib import ExitStack, suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tianji.channel import seal as seal_module
from tianji.channel.pump import UNIT_BYTES
from tianji.channel.seal import LENGTH, TAG_BYTES, Seal
from tianji.channel.wire import AHEAD_BYTES, SIZES, Wire, WireLost
from tianji.messages import Credit, Leave, SlotRef, encode

DEADLINE_S = 20
KEY = bytes(range(32))


@pytest.fixture
def pair():
    with ExitStack() as stack:
        with socket.create_server(("127.0.0.1", 0)) as server:
            near = stack.enter_context(socket.create_connection(server.getsockname()))
            far = stack.enter_context(server.accept()[0])
        yield near, far


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def ends(request, pair):
    """A wire, and a reader at its other end."""
    return Wire(pair[0], 1 << 16, request.param), Reader(pair[1], key=request.param)


def credit(number):
    return Credit([SlotRef(0, number)])


class Reader:
    """Receives messages whose only slot's number is the size of their body."""

    def __init__(self, connection, header_bytes=1 << 16, key=None):
        self.wire = Wire(connection, header_bytes, key, answers=True)
        self.came = []
        self._bodies = []

    def place(self, message, size):
        body = memoryview(bytearray(size))
        self._bodies.append(body)
        # Three pieces, so that limits fall anywhere.
        return [body[: size // 3], body[size // 3 : size // 2], body[size // 2 :]]

    def take(self, number):
        """Messages with their bodies, once that many have come."""
        deadline = time.monotonic() + DEADLINE_S
        while len(self.came) < number:
            self.came += [(message, bytes(self._bodies.pop(0))) for message in self.wire.receive(self.place)]
            assert time.monotonic() < deadline, f"{len(self.came)} of {number} messages"
        return self.came


def body_of(size):
    return np.random.default_rng(size).bytes(size)


def stream_of(sizes, key):
    """What a wire sends for messages with bodies of these sizes, each in two pieces."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near, far = socket.create_connection(server.getsockname()), server.accept()[0]
    with near, far:
        writer, sent = Wire(near, 1 << 16, key), []
        for size in sizes:
            body = memoryview(body_of(size))
            writer.send(credit(size), [body[: size // 4], body[size // 4 :]])
            writer.push()
            writer.finish(0)
            far.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    sent.append(far.recv(1 << 20))
    return b"".join(sent)


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.sampled_from([0, 1, 5, 4000, 4096, 5000, 70_000]), min_size=1, max_size=8), data=st.data())
def test_messages_arrive_however_they_are_cut(key, sizes, data):
    stream = stream_of(sizes, key)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    with socket.create_server(("127.0.0.1", 0)) as server:
        near, far = socket.create_connection(server.getsockname()), server.accept()[0]
    with near, far:
        reader = Reader(far, key=key)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            near.sendall(stream[start:end])
            reader.came += [(m, bytes(reader._bodies.pop(0))) for m in reader.wire.receive(reader.place)]
        assert reader.take(len(sizes)) == [(credit(size), body_of(size)) for size in sizes]


def test_a_header_that_is_longer_than_what_is_read_ahead(ends):
    writer, reader = ends
    long = Credit([SlotRef(n, n) for n in range(4000)])
    for message in (long, credit(3), long):
        writer.send(message, [memoryview(b"end")])
    writer.push()
    assert reader.take(3) == [(long, b"end"), (credit(3), b"end"), (long, b"end")]


def test_more_buffers_than_one_system_call_takes(ends):
    writer, reader = ends
    body = body_of(5000)
    writer.send(credit(1), [memoryview(body)[n : n + 1] for n in range(5000)])
    writer.push()
    assert reader.take(1) == [(credit(1), body)]


def test_what_the_kernel_has_no_room_for_is_sent_while_the_process_does_something_else(ends):
    writer, reader = ends
    size = 1 << 25
    for number in range(3):
        writer.send(credit(number), [memoryview(body_of(size + number))])
    writer.push()
    writer.send(Leave())
    writer.push()
    # From here on nobody calls the writer.
    came = reader.take(4)
    assert [message for message, _ in came] == [credit(0), credit(1), credit(2), Leave()]
    assert all(body == body_of(size + number) for number, (_, body) in enumerate(came[:3]))
    # Its thread has nothing left, and messages are sent directly again.
    writer.finish(DEADLINE_S)
    writer.send(credit(9))
    writer.push()
    assert reader.take(5)[4] == (credit(9), b"")
    writer.close()


def test_a_reader_hands_over_what_it_has(ends):
    writer, reader = ends
    for number in range(64):
        writer.send(credit(number), [memoryview(bytes(UNIT_BYTES // 4))])
    writer.push()
    time.sleep(0.2)  # All of it may be there.
    assert 0 < len(reader.wire.receive(reader.place)) < 64


def test_closing_waits_for_what_is_under_way_and_not_for_ever(pair):
    writer = Wire(pair[0], 1 << 16)
    writer.send(credit(0), [memoryview(bytes(1 << 26))])
    before = time.monotonic()
    writer.finish(0.3)
    writer.close()
    assert 0.25 < time.monotonic() - before < DEADLINE_S


def test_unread_words_of_the_other_side_do_not_cost_the_last_message(ends):
    """A socket that is closed with unread bytes is reset: what its kernel had not sent would be gone."""
    writer, reader = ends
    reader.wire.send(credit(1))
    reader.wire.push()
    writer.send(credit(2), [memoryview(body_of(1 << 15))])
    writer.finish(DEADLINE_S)
    writer.close()
    assert reader.take(1) == [(credit(2), body_of(1 << 15))]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (SIZES.pack(1 << 17, 0), "a header of 131072 bytes"),
        (SIZES.pack(3, 0) + b"\xc1\xc1\xc1", "not a message"),
        (b"", "closed"),
    ],
)
def test_what_ends_a_wire(pair, sent, why):
    reader = Reader(pair[1])
    pair[0].sendall(sent)
    if not sent:
        pair[0].close()
    with pytest.raises(WireLost, match=why):
        reader.take(1)


def test_a_writer_learns_that_the_other_side_has_gone(pair):
    writer = Wire(pair[0], 1 << 16)
    pair[1].close()

    def write_on():
        for _ in range(1000):
            writer.send(credit(0), [memoryview(bytes(1 << 20))])
            writer.push()

    with pytest.raises(WireLost):
        write_on()


def test_a_wire_that_could_not_be_made(pair):
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = server.getsockname()
    wire = Wire(socket.socket(), 1 << 16)
    assert wire._socket.connect_ex(place) != 0

    def wait():
        for _ in range(1000):
            assert not wire.connected()
            time.sleep(0.01)

    with pytest.raises(WireLost):
        wait()
    wire.close()


@pytest.mark.parametrize("spare", [0, 1])
def test_what_came_before_the_end_is_handed_over(pair, spare):
    """The last bytes may fill what is read at once exactly, so that the next call of the kernel meets the end."""
    header = encode(credit(1))
    size = AHEAD_BYTES - SIZES.size - len(header) - spare
    pair[0].sendall(SIZES.pack(len(header), size) + header + bytes(size))
    pair[0].close()
    reader = Reader(pair[1])
    assert reader.take(1) == [(credit(1), bytes(size))]
    with pytest.raises(WireLost):
        reader.wire.receive(reader.place)


def test_a_wire_closes_at_any_moment_of_its_thread(pair):
    writer = Wire(pair[0], 1 << 16)
    writer.send(credit(0), [memoryview(bytes(1 << 24))])
    writer.push()
    pump = writer._pump
    clear = pump._work.clear
    pump._work.clear = lambda: (time.sleep(0.05), clear())
    left = SIZES.size + len(encode(credit(0))) + (1 << 24)
    while left:
        left -= len(pair[1].recv(1 << 20))
    writer.close()
    assert not pump._thread.is_alive()


# With a key


def records(stream):
    """The records of what was sent, with their lengths."""
    at, found = 0, []
    while at < len(stream):
        size = LENGTH.size + LENGTH.unpack_from(stream, at)[0] + TAG_BYTES
        found.append(stream[at : at + size])
        at += size
    return found


def changed(record, at):
    return record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :]


SENT = (3, 70_000, 5)
HARM = {
    "a byte of the text": lambda one, two, three, *rest: [one, changed(two, LENGTH.size), three],
    "a byte of the tag": lambda one, two, three, *rest: [one, changed(two, -1 % len(two)), three],
    "a shorter length": lambda one, two, three, *rest: [one, changed(two, 0), three],
    "one left out": lambda one, two, three, *rest: [one, three],
    "one repeated": lambda one, two, three, *rest: [one, one],
    "two exchanged": lambda one, two, three, *rest: [two, one],
    "one of another connection": lambda one, *rest: [stream_of((3,), bytes(32))],
    "a length beyond all": lambda one, *rest: [LENGTH.pack(1 << 30)],
    "not encrypted": lambda one, *rest: [stream_of((3,), None) + bytes(1 << 10)],
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_what_the_other_side_did_not_send_ends_a_wire(pair, harm):
    reader = Reader(pair[1], key=KEY)
    pair[0].sendall(b"".join(harm(*records(stream_of(SENT, KEY)))))
    pair[0].close()
    with pytest.raises(WireLost, match="record"):
        reader.take(3)
    assert reader.came in ([], [(credit(3), body_of(3))])


def test_what_an_end_sent_cannot_be_sent_back_to_it(pair):
    writer = Wire(pair[0], 1 << 16, KEY)
    writer.send(credit(3), [memoryview(b"abc")])
    writer.push()
    pair[1].sendall(pair[1].recv(1 << 16))
    with pytest.raises(WireLost, match="not the other side's"):
        writer.receive(lambda message, size: [memoryview(bytearray(size))])


def test_a_record_that_holds_part_of_a_header_ends_a_wire(pair):
    seal = Seal(KEY, answers=False, most_bytes=1 << 16)
    header = encode(credit(3))
    pair[0].sendall(b"".join(seal.seal([SIZES.pack(len(header), 0) + header[:2]])))
    with pytest.raises(WireLost, match="within a header"):
        Reader(pair[1], key=KEY).take(1)


def test_bodies_in_other_pieces_than_they_were_sent_in(pair):
    """A relay's slots lie elsewhere, and what is invalid is thrown away."""
    body = body_of(200_000)
    seal, header = Seal(KEY, answers=False, most_bytes=1 << 20), encode(credit(1))
    pieces = [body[:10], body[10:70_000], body[70_000:70_001], body[70_001:]]
    texts = [[SIZES.pack(len(header), len(body)) + header], *([piece] for piece in pieces)]
    following = [SIZES.pack(len(header), 2) + header + b"ab" + SIZES.pack(len(header), 0) + header]
    pair[0].sendall(b"".join(piece for text in [*texts, following] for piece in seal.seal(text)))
    assert Reader(pair[1], key=KEY).take(3) == [(credit(1), body), (credit(1), b"ab"), (credit(1), b"")]


def test_keys_are_replaced_on_both_sides_at_once(pair, monkeypatch):
    monkeypatch.setattr(seal_module, "RECORDS_A_KEY", 3)
    writer, reader = Wire(pair[0], 1 << 16, KEY), Reader(pair[1], key=KEY)
    first = writer._seal._sent._key
    for number in range(20):
        writer.send(credit(number), [memoryview(b"x" * number)])
        reader.wire.send(credit(number))
    writer.push()
    reader.wire.push()
    assert [body for _, body in reader.take(20)] == [b"x" * number for number in range(20)]
    assert writer._seal._sent._key == reader.wire._seal._received._key != first
    assert writer._seal._received._key not in (first, writer._seal._sent._key)


def test_nothing_that_is_sent_can_be_read_on_the_way():
    stream = stream_of((70_000,), KEY)
    body = body_of(70_000)
    assert len(stream) > len(body)
    assert all(body[at : at + 16] not in stream for at in range(0, len(body), 1000))
    assert encode(credit(70_000)) not in stream
