"""Snapshots to a slow listener: a bounded number is under way, and the newest one is never lost."""

from tianji.messages import Snapshot
from tianji.worlds.snapshots import Snapshots


def snapshot(version, size=1000):
    return Snapshot(version, version, 0, bytes(size))


def test_a_listener_that_reads_gets_all():
    sent = []
    snapshots = Snapshots(sent.append, most_bytes=5_000)
    for version in range(100):
        snapshots.send(snapshot(version))
        snapshots.taken()
    assert [one.version for one in sent] == list(range(100))
    assert snapshots.dropped == 0


def test_a_listener_that_does_not_read_bounds_what_is_under_way():
    sent = []
    snapshots = Snapshots(sent.append, most_bytes=5_000)
    for version in range(100):
        snapshots.send(snapshot(version))
    assert [one.version for one in sent] == [0, 1, 2, 3, 4]
    assert snapshots.dropped == 94
    # As it goes on it gets the newest one, and then what follows.
    snapshots.taken()
    snapshots.taken()
    snapshots.send(snapshot(100))
    assert [one.version for one in sent[5:]] == [99, 100]
    snapshots.send(snapshot(101))
    snapshots.finish()
    assert sent[-1].version == 101


def test_two_large_ones_are_always_allowed():
    sent = []
    snapshots = Snapshots(sent.append, most_bytes=10)
    for version in range(3):
        snapshots.send(snapshot(version))
    assert [one.version for one in sent] == [0, 1]
