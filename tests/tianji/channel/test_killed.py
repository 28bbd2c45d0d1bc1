"""kill -9 of either side at every stage of a hand-over: no chunk is torn, no slot is lost, and nothing is left behind."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import chunk_peer
import edges
import pytest
from edges import PARAMETERS, SLOTS, Bench, text, vector

from tianji.channel.base import ChannelError


@pytest.fixture(params=["shm", "ipc", "tcp"])
def bench(request):
    with ExitStack() as stack:
        yield Bench(request.param, stack)


@contextmanager
def peer(side, uri, stage):
    """A peer's process, once it has reached its stage (the caller must let it get there); killed in the end."""
    process = subprocess.Popen(
        [sys.executable, chunk_peer.__file__, side, uri, stage],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(edges.__file__).parent)},
    )
    os.set_blocking(process.stdout.fileno(), False)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


def reached(process, stage):
    """Whether the peer has said so."""
    assert process.poll() is None, "the peer has ended by itself"
    return stage in (process.stdout.readline() or "")


def carry_on(bench, inlet, outlet, first):
    """The edge works, with all its slots."""
    for sequence in range(first, first + 3 * SLOTS):
        bench.until(lambda: bench.free[outlet])
        outlet.send([bench.write(outlet, sequence, text(sequence))])
        bench.until(lambda: bench.got[inlet])
        (chunk,) = bench.got.pop(inlet)
        assert (chunk.sequence, bench.body(inlet, chunk)) == (sequence, text(sequence))
        inlet.release([chunk.slot])
    bench.until(lambda: len(bench.free[outlet]) == SLOTS)


def test_a_welcome_that_is_read_after_its_inlet_has_ended(bench):
    # Step by step, for both have come when the outlet looks: that the connection is gone, and what came by it before.
    inlet = bench.channels.inlet(bench.address("a"), bench.spec)
    uri, outlet = inlet.uri, bench.outlet(inlet)
    bench.until(inlet.pending)
    inlet.receive()
    line = outlet._line
    assert line.socket.poll(20_000), "no welcome"
    inlet.close()
    assert line._monitor.poll(20_000), "no end of the connection"
    assert outlet.credits() == []
    carry_on(bench, bench.inlet(uri), outlet, 0)


@pytest.mark.parametrize("bench", ["shm"], indirect=True)
def test_a_welcome_that_is_read_before_the_news_that_its_inlet_has_ended(bench, monkeypatch):
    inlet = bench.channels.inlet(bench.address("a"), bench.spec)
    uri, outlet = inlet.uri, bench.outlet(inlet)
    bench.until(inlet.pending)
    inlet.receive()
    assert outlet._line.socket.poll(20_000), "no welcome"
    inlet.close()
    with monkeypatch.context() as patch:
        patch.setattr(outlet._line, "changes", lambda: iter(()))
        assert outlet.credits() == []
    carry_on(bench, bench.inlet(uri), outlet, 0)


@pytest.mark.parametrize("bench", ["shm"], indirect=True)
def test_a_board_that_is_announced_before_the_news_that_its_publisher_has_ended(bench, monkeypatch):
    first = bench.channels.weights_outlet(bench.address("w"), PARAMETERS)
    uri, reader = first.uri, bench.keep(bench.channels.weights_inlet(first.uri, PARAMETERS))
    bench.until(lambda: (reader.latest(vector(0)), reader._incarnation is not None)[1])
    bench.until(lambda: (first.serve(), first.readers() == 1)[1])
    assert reader._line.socket.poll(20_000), "no board"
    first.close()
    with monkeypatch.context() as patch:
        patch.setattr(reader._line, "changes", lambda: iter(()))
        assert reader.latest(vector(0)) is None
    second = bench.patiently(lambda: bench.channels.weights_outlet(uri, PARAMETERS))
    second.publish(1, vector(1))
    bench.until(lambda: (second.serve(), reader.latest(vector(0)) == 1)[1])


@pytest.mark.parametrize("bench", ["shm"], indirect=True)
def test_memory_of_a_running_process_that_stays_closed_is_a_lasting_error(bench):
    publisher = bench.keep(bench.channels.weights_outlet(bench.address("w"), PARAMETERS))
    publisher._bell = SimpleNamespace(reading_fd=2**20, close=publisher._bell.close)
    reader = bench.keep(bench.channels.weights_inlet(publisher.uri, PARAMETERS))
    with pytest.raises(ChannelError, match="cannot open descriptor 1048576"):
        bench.until(lambda: (publisher.serve(), reader.latest(vector(0)))[1])


@pytest.mark.long(why="processes are killed in the middle of a message, many times")
@pytest.mark.parametrize("stage", chunk_peer.PRODUCER_STAGES)
def test_a_producer_that_is_killed(bench, stage):
    inlet = bench.inlet()
    with peer("produce", inlet.uri, stage) as process:
        bench.until(lambda: reached(process, stage))
    sent = {"joined": 0, "starved": 4}.get(stage, 3)
    bench.quiet()
    # It is dead. Chunks that it sent are intact, and stay so when a successor takes its place. All of those in shared memory
    # arrive. Of those sent in messages, ZeroMQ's thread may not have sent the last.
    came = len(bench.got[inlet])
    assert came == sent if bench.scheme == "shm" else came <= sent
    outlet = bench.outlet(inlet)
    bench.until(lambda: len(bench.free[outlet]) == SLOTS - came)
    while bench.free[outlet]:
        outlet.send([bench.write(outlet, 90 + len(bench.free[outlet]), b"successor")])
    bench.until(lambda: len(bench.got[inlet]) == SLOTS)
    assert [bench.body(inlet, c) for c in bench.got[inlet] if c.sequence < 90] == [text(s) for s in range(came)]
    inlet.release([c.slot for c in bench.got.pop(inlet)])
    bench.until(lambda: len(bench.free[outlet]) == SLOTS)
    carry_on(bench, inlet, outlet, 100)


@pytest.mark.long(why="processes are killed in the middle of a message, many times")
@pytest.mark.parametrize("stage", chunk_peer.CONSUMER_STAGES)
def test_a_consumer_that_is_killed(bench, stage):
    if bench.scheme == "tcp":
        free = bench.inlet()
        uri = free.uri
        bench.close(free)
    else:
        uri = bench.address("a")
    outlet = bench.outlet(uri)
    # A slot in hand while the consumer dies: nobody may hand it out again.
    with peer("consume", uri, stage) as process:
        if stage in ("bound", "received"):
            bench.until(lambda: reached(process, stage))
        else:
            bench.until(lambda: len(bench.free[outlet]) == SLOTS)
            outlet.send([bench.write(outlet, s, text(s)) for s in range(2)])
            bench.until(lambda: reached(process, stage))
    inlet = bench.inlet(uri)
    bench.until(lambda: len(bench.free[outlet]) == SLOTS)
    bench.quiet()
    assert sorted(ref.slot for ref in bench.free[outlet]) == list(range(SLOTS))
    carry_on(bench, inlet, outlet, 100)


def test_an_inlet_notices_that_a_process_of_its_host_died():
    with ExitStack() as stack:
        bench = Bench("shm", stack)
        inlet = bench.inlet()
        with peer("produce", inlet.uri, "sent") as process:
            bench.until(lambda: reached(process, "sent"))
            assert inlet.counters["peers_lost"] == 0
        bench.until(lambda: inlet.counters["peers_lost"] == 1)
        assert [bench.body(inlet, c) for c in bench.got[inlet]] == [text(s) for s in range(3)]
