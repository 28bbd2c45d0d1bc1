"""The ring: a queue under any order of puts and gets, also between processes, that detects corrupted memory."""

import mmap
import os
import select
import sys
import threading
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tianji.channel.ring import HEAD_BYTES, WRITTEN, Bell, RingBroken, RingReader, RingWriter, own_fence, ring_bytes

CAPACITY = 256


def pair(memory=None):
    memory = memory or memoryview(bytearray(ring_bytes(CAPACITY)))
    return RingWriter(memory), RingReader(memory), memory


@given(st.lists(st.one_of(st.binary(max_size=70), st.none()), max_size=200))
def test_it_is_a_queue(steps):
    """Puts and gets (None) in any order, against a deque; a put fails only when there is no room."""
    writer, reader, _ = pair()
    model = deque()
    for step in steps:
        if step is None:
            assert reader.get() == (model.popleft() if model else None)
        elif writer.put(step):
            model.append(step)
        else:
            assert sum(len(frame) + 12 for frame in model) > CAPACITY - 2 * 84
        assert reader.empty() == (not model)
    assert [reader.get() for _ in range(len(model) + 1)] == [*model, None]


def test_a_frame_that_can_never_fit_is_refused():
    writer, reader, _ = pair()
    assert not writer.put(bytes(CAPACITY))
    assert reader.get() is None


@given(st.binary(min_size=8 + CAPACITY, max_size=8 + CAPACITY), st.integers(1, CAPACITY))
def test_noise_in_a_ring_is_noticed_or_read_as_bytes(noise, written):
    """Whatever a broken writer leaves there, reading ends, in order, within the memory of the ring."""
    _, reader, memory = pair()
    memory[HEAD_BYTES:] = noise[8:]
    memory[:HEAD_BYTES].cast("q")[WRITTEN] = written
    read = 0
    try:
        while (frame := reader.get()) is not None:
            read += len(frame)
            assert read <= CAPACITY
    except RingBroken:
        pass
    else:
        assert reader.empty()


@pytest.mark.parametrize("written", [-8, CAPACITY + 8, 1 << 62])
def test_a_count_that_cannot_be_is_noticed(written):
    _, reader, memory = pair()
    memory[:HEAD_BYTES].cast("q")[WRITTEN] = written
    with pytest.raises(RingBroken):
        reader.get()


def test_between_processes_every_frame_comes_and_every_sleeper_is_woken():
    """A child echoes; both sides sleep as soon as there is nothing, so a bell that is forgotten would stop them."""
    rounds, memory = 5000, memoryview(mmap.mmap(-1, 2 * ring_bytes(CAPACITY)))
    there, back = memory[: ring_bytes(CAPACITY)], memory[ring_bytes(CAPACITY) :]
    ours, theirs = Bell(), Bell()

    fence = own_fence()

    def wait(reader, bell, poller):
        reader.sleep()
        fence()
        if reader.empty():
            assert poller.poll(20_000), "nobody rang"
        reader.wake()
        bell.clear()

    def serve(writer, reader, own, other, first):
        poller = select.poll()
        poller.register(own.reading_fd, select.POLLIN)
        for number in range(rounds):
            if first:
                assert writer.put(b"%d" % number)
                if writer.reader_asleep():
                    other.ring()
            while (frame := reader.get()) is None:
                wait(reader, own, poller)
            assert frame == b"%d" % number
            if not first:
                assert writer.put(frame)
                if writer.reader_asleep():
                    other.ring()

    child = os.fork()
    if child == 0:
        status = 1
        try:
            serve(RingWriter(back), RingReader(there), theirs, ours, first=False)
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    serve(RingWriter(there), RingReader(back), ours, theirs, first=True)
    assert os.waitpid(child, 0)[1] == 0
    ours.close()
    theirs.close()


def test_a_bell_for_everybody_wakes_each_watcher_once_a_ring():
    bell = Bell()
    watchers = []
    for _ in range(3):
        watcher = select.epoll()
        watcher.register(bell.reading_fd, select.EPOLLIN | select.EPOLLET)
        watchers.append(watcher)
    assert [w.poll(0) for w in watchers] == [[], [], []]
    for _ in range(3):
        bell.ring_everybody()
        assert all(w.poll(1) for w in watchers)
        assert [w.poll(0) for w in watchers] == [[], [], []]
    late = select.epoll()
    late.register(bell.reading_fd, select.EPOLLIN | select.EPOLLET)
    assert late.poll(0), "who comes late is woken at once"
    for watcher in (*watchers, late):
        watcher.close()
    bell.close()
    bell.close()


def test_a_bell_never_blocks_whoever_rings():
    bell = Bell()
    for _ in range(70_000):
        bell.ring()
    assert select.select([bell.reading_fd], [], [], 0)[0]
    reading = bell.reading_fd
    os.close(reading)
    bell.reading_fd = -1
    bell.ring()
    bell.close()


def test_threads_of_one_process_may_fence_at_the_same_time():
    """With one lock for all, one thread took what the other had just given up, and releasing it again was an error."""
    failed = []

    def fences():
        fence = own_fence()
        try:
            for _ in range(20_000):
                fence()
        except RuntimeError as error:
            failed.append(error)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=fences) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(switch)
    assert not failed
    assert not any(thread.is_alive() for thread in threads)
