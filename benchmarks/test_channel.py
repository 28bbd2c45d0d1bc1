"""Cost of the channel's parts in one process: codec, ring, hand-over, board. `benchmarks/channel.py` measures the whole.

`nox -s micro` prints them. Compare the ratios within a group.
"""

import mmap
import os
import tempfile

import numpy as np
import pytest

from suites.components.opaque import opaque_layout
from tianji.channel.arena import anonymous_file
from tianji.channel.base import EdgeSpec
from tianji.channel.board import WeightBoard
from tianji.channel.registry import Channels
from tianji.channel.ring import RingReader, RingWriter, own_fence, ring_bytes
from tianji.channel.waiter import Waiter
from tianji.messages import Batch, ChunkHeader, Credit, SlotRef, decode_edge, encode

HEADERS = 16
PARAMETERS = 1 << 20


def headers(refs, layout=1 << 62):
    return [ChunkHeader(0, n, 7, layout, 256, 64, 64, ref) for n, ref in enumerate(refs)]


@pytest.mark.benchmark(group="header codec, 16 chunks")
def test_encode(benchmark):
    batch = Batch(headers([SlotRef(0, n) for n in range(HEADERS)]))
    assert decode_edge(benchmark(encode, batch)) == batch


@pytest.mark.benchmark(group="header codec, 16 chunks")
def test_decode(benchmark):
    batch = Batch(headers([SlotRef(0, n) for n in range(HEADERS)]))
    assert benchmark(decode_edge, encode(batch)) == batch


@pytest.mark.benchmark(group="header codec, 16 chunks")
def test_decode_credit(benchmark):
    credit = Credit([SlotRef(0, n) for n in range(HEADERS)])
    assert benchmark(decode_edge, encode(credit)) == credit


@pytest.mark.benchmark(group="ring")
def test_put_and_get(benchmark):
    memory = memoryview(mmap.mmap(-1, ring_bytes(1 << 16)))
    writer, reader = RingWriter(memory), RingReader(memory)
    frame = encode(Batch(headers([SlotRef(0, n) for n in range(HEADERS)])))

    def there_and_back():
        writer.put(frame)
        return reader.get()

    assert benchmark(there_and_back) == frame


@pytest.mark.benchmark(group="ring")
def test_fence(benchmark):
    assert benchmark(own_fence()) is None


@pytest.mark.benchmark(group="hand-over of 16 chunks and their credit")
@pytest.mark.parametrize("scheme", ["memory", "shm", "inproc", "ipc"])
def test_hand_over(benchmark, scheme):
    """Send, receive, release and credit, with both ends in one process. ZeroMQ copies bodies; the others do not."""
    spec = EdgeSpec(opaque_layout(64), HEADERS, 1)
    with tempfile.TemporaryDirectory(prefix="tj") as folder, Channels() as channels:
        uri = f"{scheme}://{folder}/edge"
        with channels.inlet(uri, spec) as inlet, channels.outlet(uri, spec, 0) as outlet, Waiter([inlet, outlet]) as waiter:
            free = []
            while len(free) < HEADERS:
                inlet.receive()
                free += outlet.credits()
                waiter.wait(0.01)

            def round_trip():
                outlet.send(headers(free, spec.layout.id))
                outlet.flush()
                got = []
                while len(got) < HEADERS:
                    got += inlet.receive()
                inlet.release([chunk.slot for chunk in got])
                inlet.flush()
                free.clear()
                while len(free) < HEADERS:
                    free.extend(outlet.credits())
                return got

            got = benchmark(round_trip)
    assert [chunk.slot.slot for chunk in got] == list(range(HEADERS))


@pytest.fixture
def board():
    fd = anonymous_file("bench", WeightBoard.size_bytes(PARAMETERS))
    yield WeightBoard(fd, PARAMETERS)
    os.close(fd)


@pytest.fixture
def weights():
    return np.random.default_rng(0).normal(size=PARAMETERS).astype(np.float32)


@pytest.mark.benchmark(group="4 MiB of weights")
def test_board_write(benchmark, board, weights):
    versions = iter(range(1 << 40))
    benchmark(lambda: board.write(next(versions), weights))
    out = np.empty_like(weights)
    assert board.read(out) == board.version
    assert np.array_equal(out, weights)


@pytest.mark.benchmark(group="4 MiB of weights")
def test_board_read(benchmark, board, weights):
    board.write(3, weights)
    out = np.empty_like(weights)
    assert benchmark(board.read, out) == 3
    assert np.array_equal(out, weights)


@pytest.mark.benchmark(group="4 MiB of weights")
def test_plain_copy(benchmark, weights):
    out = np.empty_like(weights)
    benchmark(np.copyto, out, weights)
    assert np.array_equal(out, weights)
