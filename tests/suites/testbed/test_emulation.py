"""Emulated nodes: reachability, counters, budgets and links, and clean-up."""

import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from programs.cli import ConfigError
from suites.testbed import emulation, netns, probe
from suites.testbed.base import Shape
from suites.testbed.control_groups import MOST
from suites.testbed.emulation import Emulated
from suites.testbed.netns import inside
from suites.testbed.registry import open_testbed, unavailable

REASON = unavailable("netns")
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no nodes can be emulated: {REASON}")

HELPERS = Path(__file__).parents[2] / "helpers"


@pytest.fixture
def two():
    with open_testbed("netns", Shape(nodes=2)) as testbed:
        yield testbed


def connected(server_node, client_node):
    """A TCP connection from the second node to the first; its ends, the server's first."""
    with inside(server_node):
        server = socket.create_server((server_node.address, 0))
    with server:
        server.settimeout(5)
        with inside(client_node):
            there = socket.create_connection(server.getsockname(), 5)
        back, (peer, _) = server.accept()
    assert peer == client_node.address
    return back, there


def move(source, target, count):
    """So many bytes, to the last."""
    sender = threading.Thread(target=source.sendall, args=(bytes(count),))
    sender.start()
    while count:
        count -= len(target.recv(count))
    sender.join()


def sent_by(end):
    """Bytes and frames that its host has sent for a socket, what was sent again and acknowledgements among them."""
    # struct tcp_info of linux/tcp.h: the 32 bits from 136 are `tcpi_segs_out`, the 64 from 200 `tcpi_bytes_sent`.
    (frames,), (content,) = (
        struct.unpack_from(form, end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), at)
        for form, at in (("I", 136), ("Q", 200))
    )
    return content, frames


def test_nodes_reach_each_other_and_home_and_are_not_reached_from_outside(two):
    own = sorted(name for _, name in socket.if_nameindex())
    first, second = two.cluster.nodes
    assert (first.address, second.address, two.cluster.home) == ("10.77.0.1", "10.77.0.2", "10.77.0.254")
    for pair in ((first, second), (second, first), (first, two.home), (two.home, second)):
        for end in connected(*pair):
            end.close()
    with inside(first):
        server = socket.create_server((first.address, 0))
    with server, pytest.raises(OSError):
        socket.create_connection(server.getsockname(), 0.3)
    assert sorted(name for _, name in socket.if_nameindex()) == own


def test_a_node_has_ports_and_connections_of_its_own(two):
    first, second = two.cluster.nodes
    with inside(first):
        one = socket.create_server(("0.0.0.0", 0))
    port = one.getsockname()[1]
    # Bound again on the second, though to all of its addresses.
    with inside(second):
        other = socket.create_server(("0.0.0.0", port))
    with one, other:
        with inside(second):
            there = socket.create_connection((second.address, port), 5)
        with there:
            assert select.select([one, other], [], [], 5)[0] == [other]
        listening = [int(line.split()[1].split(":")[1], 16) for line in tcp_table(first)]
        assert listening == [port]


def tcp_table(node):
    """Rows of sockets that a process on a node is told of."""
    with node.popen(["cat", "/proc/self/net/tcp"], stdout=subprocess.PIPE) as process:
        return process.communicate(timeout=5)[0].decode().splitlines()[1:]


def test_counters_are_what_was_moved(two):
    first, second = two.cluster.nodes
    before = two.usage()
    back, there = connected(first, second)
    with back, there:
        move(there, back, 3_000_000)
        move(back, there, 50_000)
        open_still = two.usage()
        content, frames = sent_by(there)
        answered = sent_by(back)
    closed = two.usage()
    # Comes and goes between two looks.
    for end in (ends := connected(two.home, first)):
        end.settimeout(5)
    move(ends[1], ends[0], 7_000)
    move(ends[0], ends[1], 9_000)
    for end in ends:
        end.close()
    mine = connected(first, first)
    move(*mine, 4_000)
    for end in mine:
        end.close()
    deadline = time.monotonic() + 5
    while (last := two.usage())[0].control_bytes == before[0].control_bytes:
        assert time.monotonic() < deadline
    assert [late.socket_bytes - early.socket_bytes for late, early in zip(open_still, before, strict=True)] == [
        50_000,
        3_000_000,
    ]
    assert [u.socket_bytes for u in closed] == [u.socket_bytes for u in open_still]
    assert [u.socket_bytes for u in last] == [u.socket_bytes for u in open_still]
    assert [u.control_bytes - v.control_bytes for u, v in zip(last, before, strict=True)] == [7_000, 0]
    # 66 bytes of headers with each 1,448 at the most. A busy machine makes TCP send some again, and its own count has those
    # too; a frame lost before the link is no byte on it. At the end some frames to close, and some to find addresses.
    sent, received = (
        closed[1].wire_sent_bytes - before[1].wire_sent_bytes,
        closed[0].wire_received_bytes - before[0].wire_received_bytes,
    )
    assert 3_000_000 + 66 * -(-3_000_000 // 1448) <= sent <= content + 66 * (frames + 20)
    assert received == pytest.approx(sent, abs=1_000)
    content, frames = answered
    assert (
        50_000 + 66 * -(-50_000 // 1448)
        <= closed[0].wire_sent_bytes - before[0].wire_sent_bytes
        <= content + 66 * (frames + 20)
    )


def test_cpu_time_is_that_of_a_nodes_processes(two):
    before = two.usage()
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(time.process_time())"
    with two.cluster.nodes[1].popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        used = float(process.communicate(timeout=30)[0])
    after = two.usage()
    assert after[1].cpu_s - before[1].cpu_s == pytest.approx(used, rel=0.2)
    assert after[0].cpu_s == before[0].cpu_s
    assert after[1].daemons_cpu_s == before[1].daemons_cpu_s == 0


def test_company_stands_still_when_it_is_held_and_has_a_budget_afterwards():
    with Emulated(Shape(nodes=1, cores=0.2, company=1)) as testbed:
        (node,), (company,) = testbed.cluster.nodes, testbed.company
        assert company.address != node.address
        with company.popen([sys.executable, "-S", "-c", "while True: pass"]) as process:

            def used(seconds):
                before, begun = psutil.Process(process.pid).cpu_times().user, time.monotonic()
                time.sleep(seconds)
                return (psutil.Process(process.pid).cpu_times().user - before) / (time.monotonic() - begun)

            testbed.hold(company)
            held = used(0.2)
            testbed.limit()
            limited = used(0.6)
            process.kill()
        assert len(testbed.usage()) == 1
    assert held < 0.06
    assert limited == pytest.approx(0.2, rel=0.25)


def test_what_is_asked_for_is_checked_and_holds_from_the_limit_on():
    with Emulated(Shape(nodes=2, cores=0.2, link_bits_per_s=80_000_000, company=1)) as testbed:
        checks = testbed.check()
        node = testbed.cluster.nodes[1]
        with node.popen([sys.executable, "-S", "-c", "while True: pass"]) as process:
            before = testbed.usage()[1]
            time.sleep(0.3)
            free = testbed.usage()[1].throttled_s - before.throttled_s
            testbed.limit()
            limited = share_of(testbed, 1, 0.5)
            throttled = testbed.usage()[1].throttled_s - before.throttled_s
            process.kill()
    # How much it got until then is a matter of what else runs on this machine.
    assert len(checks) == 2, "who takes no part is not told of"
    assert free == 0
    assert throttled > 0.2
    assert limited == pytest.approx(0.2, rel=0.1)
    assert [(c.node, c.address, c.cores, c.link_bits_per_s) for c in checks] == [
        (1, "10.77.0.1", 0.2, 80_000_000),
        (2, "10.77.0.2", 0.2, 80_000_000),
    ]
    for check in checks:
        assert check.cores_measured == pytest.approx(0.2, rel=0.1)
        assert check.link_measured_bits_per_s == pytest.approx(80e6, rel=0.1)
        assert 0 < check.round_trip_s < 0.01


def share_of(testbed, number, seconds):
    before = testbed.usage()[number]
    time.sleep(seconds)
    after = testbed.usage()[number]
    return (after.cpu_s - before.cpu_s) / ((after.ns - before.ns) / 1e9)


def test_a_check_that_is_off_fails_in_one_line(two, monkeypatch):
    first, second = two.cluster.nodes
    monkeypatch.setattr(probe, "PAUSES_S", (0,))
    with pytest.raises(RuntimeError, match=r"^testbed: node 10.77.0.1 has a link of \d+\.\d Mbit/s, not of 1.0$"):
        probe.checked_line(first, second, 1_000_000, None)
    with pytest.raises(RuntimeError, match=r"^testbed: node 10.77.0.1 has a round trip of .* ms, not of 50.00$"):
        probe.checked_line(first, second, None, 0.05)
    place = two._places[0]
    monkeypatch.setattr(type(place.budget), "limit", lambda group, cores: None)
    two._budgets.weigh(MOST)
    # Nothing limits it: it gets a whole core, by accounts that may be some thousandths over the clock's.
    with pytest.raises(RuntimeError, match=r"^testbed: node 10.77.0.1 gets (0\.\d+|1\.0\d+) of a core, not 0.1;"):
        probe.checked_budgets([(place.node, place.budget)], 0.1)


def test_a_delay_is_the_kernels_where_it_has_netem_and_said_to_be_missing_where_not():
    with open_testbed("netns", Shape(nodes=2, delay_s=0.005)) as testbed:
        said = " ".join(testbed.deviations())
        checks = testbed.check()
        if not testbed._star.delays:
            assert "this kernel has no netem" in said
            pytest.skip("this kernel has no netem")
        assert "netem's" in said
        assert all(0.009 < check.round_trip_s < 0.0115 for check in checks)


def test_too_much_is_refused_in_one_line():
    own = len(os.sched_getaffinity(0))
    for shape, why in (
        (Shape(nodes=2, cores=own, company=1), f"{3 * own} cores in all are asked for, and this machine has {own}"),
        (Shape(nodes=1, company=1), "company is for nodes with a budget"),
    ):
        with pytest.raises(ConfigError, match=why), Emulated(shape):
            pass


@pytest.mark.parametrize("how", ["return", "raise", "kill"])
def test_nothing_stays_however_it_ends(how):
    command = [sys.executable, str(HELPERS / "on_emulated_nodes.py"), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        folders = process.stdout.readline().split()
        made = networks(process.pid) - networks("self")
        # Two nodes and their company, the switch and the launcher's home.
        assert len(made) == 5
        assert folders
        assert all(Path(folder).is_dir() for folder in folders)
        if how == "kill":
            process.kill()
        _, said = process.communicate("\n" if how != "kill" else None, timeout=30)
    assert process.returncode == {"return": 0, "raise": 1, "kill": -9}[how]
    assert ("ValueError: on purpose" in said) == (how == "raise")
    if how == "kill":
        with Emulated(Shape(nodes=1)):
            pass
    assert not any(Path(folder).exists() for folder in folders)
    deadline = time.monotonic() + 30
    while networks() & made:
        assert time.monotonic() < deadline


def networks(process="[0-9]*"):
    """Network namespaces that a process, or any, keeps by being in it or by a descriptor."""
    found = set()
    for link in (*Path("/proc").glob(f"{process}/ns/net"), *Path("/proc").glob(f"{process}/fd/*")):
        try:
            name = str(link.readlink())
        except OSError:
            continue
        if name.startswith("net:"):
            found.add(name)
    return found


def test_missing_rights_are_one_line(monkeypatch):
    def refuse():
        raise PermissionError(1, "neither root's capabilities nor user namespaces")

    monkeypatch.setattr(netns, "become_able", refuse)
    with pytest.raises(ConfigError, match=r"^testbed netns: neither root's capabilities nor user namespaces; it needs root$"):
        Emulated(Shape(nodes=1)).set_up()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert emulation.unavailable() == "the trial failed"


@pytest.mark.long(why="nodes are made, and Ray on them")
@pytest.mark.xdist_group("ray")
def test_ray_runs_on_nodes_its_workers_within_budgets_and_its_daemons_beside():
    pytest.importorskip("ray")
    done = subprocess.run(
        [sys.executable, str(HELPERS / "ray_on_emulated_nodes.py")], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["where"] == ["10.77.0.1", "10.77.0.2"]
    assert found["done"] == "done"
    # Unlimited it would be a core each, and one that was not moved to its budget would use none of it.
    assert found["shares"] == pytest.approx([0.2, 0.2], rel=0.15)
    assert min(found["daemons"]) > 0.5
    assert found["processes"] >= 2 * 3
    assert found["left"] == []
