"""Cores that processes share, and links with a queue at both ends."""

import pytest

from tianji.simulation.machines import PERIODS_KEPT, Machine, Node, carried

MS = 1_000_000
LINK = Machine(latency_seconds=0.010, link_bytes_per_s=1e6)


def node(machine, processes=1):
    made = Node(machine)
    made.processes = processes
    return made


def test_a_process_alone_has_a_core_and_no_more():
    assert node(Machine(cores=4)).compute("a", 5, 7) == 12


@pytest.mark.parametrize(("cores", "slower"), [(3, 1), (1.5, 2), (1, 3), (0.5, 6)])
def test_processes_share_cores_evenly(cores, slower):
    shared = node(Machine(cores=cores), 3)
    # Whoever begins first does not know of the others yet.
    ended = min(shared.compute(name, 0, 100) for name in "abc")
    assert shared.compute("a", ended, 100) == ended + 100 * slower


def test_a_share_of_a_core_slows_down_a_process_alone():
    assert node(Machine(cores=0.2)).compute("a", 0, 100) == 500


def test_who_has_ended_takes_no_share():
    shared = node(Machine(cores=1), 2)
    ended = shared.compute("a", 0, 100)
    assert shared.compute("b", ended + 1, 100) == ended + 1 + 100


def test_who_does_not_go_on_takes_no_share():
    shared = node(Machine(cores=1), 2)
    ended = shared.compute("a", 0, 100, last=True)
    assert shared.compute("b", ended, 100) == ended + 100


QUOTA = Machine(cores=0.2, period_seconds=0.010)
"""2 ms in every 10."""


def test_a_quota_is_used_at_full_speed_and_comes_back_with_the_next_period():
    alone = node(QUOTA)
    assert alone.compute("a", 3 * MS, MS) == 4 * MS
    # One millisecond is left of this period, two are in the next, and two in the one after that.
    assert alone.compute("a", 5 * MS, 5 * MS) == 22 * MS
    # What is left at the end of a period is lost.
    assert alone.compute("a", 39 * MS, 2 * MS) == 41 * MS


def test_processes_compute_side_by_side_within_one_quota():
    shared = node(QUOTA, 2)
    assert [shared.compute(name, 0, MS) for name in "ab"] == [MS, MS]
    # Nothing is left for either.
    assert [shared.compute(name, MS, MS) for name in "ab"] == [11 * MS, 11 * MS]


def test_a_quota_gives_its_share_of_a_core_and_remembers_little():
    shared, ends = node(QUOTA, 2), {"a": 0, "b": 0}
    for _ in range(10_000):
        name = min(ends, key=ends.get)
        ends[name] = shared.compute(name, ends[name], MS // 2)
    # Five seconds of work are 25 on a fifth of a core.
    assert max(ends.values()) == pytest.approx(25_000 * MS, rel=0.001)
    assert len(shared._used) <= PERIODS_KEPT


def test_more_quota_than_processes_can_use_is_no_limit():
    assert node(Machine(cores=4, period_seconds=0.010), 3).compute("a", 0, 100 * MS) == 100 * MS


def test_a_message_takes_latency_and_size():
    assert carried(node(LINK), node(LINK), 5_000, 100 * MS) == 115 * MS


def test_messages_leave_one_after_the_other():
    source, targets = node(LINK), [node(LINK), node(LINK)]
    assert [carried(source, target, 5_000, 0) for target in targets] == [15 * MS, 20 * MS]


def test_messages_of_many_arrive_one_after_the_other():
    """Incast: each sender's link is free, and the receiver's is not."""
    target = node(LINK)
    assert [carried(node(LINK), target, 5_000, 0) for _ in range(3)] == [15 * MS, 20 * MS, 25 * MS]


def test_the_slower_of_two_links_sets_the_time():
    fast = Machine(latency_seconds=0.010, link_bytes_per_s=1e7)
    assert carried(node(fast), node(LINK), 5_000, 0) == 15 * MS
    assert carried(node(LINK), node(fast), 5_000, 0) == 15 * MS


def test_a_link_counts_for_how_long_it_is_busy_each_way():
    slow, fast = Node(Machine(link_bytes_per_s=1e3)), Node(Machine(link_bytes_per_s=1e4))
    carried(fast, slow, 10, 0)
    carried(fast, slow, 10, 0)
    # The fast link has sent a message in 1 ms; the slow one takes it in for 10 ms.
    assert (fast.out_busy_ns, slow.in_busy_ns) == (2_000_000, 20_000_000)
    assert (fast.in_busy_ns, slow.out_busy_ns) == (0, 0)
