"""Emulated hosts: addresses, links, isolation and clean-up."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from suites.testbed import netns

REASON = netns.unavailable()
needs_rights = pytest.mark.skipif(REASON is not None, reason=f"no hosts can be emulated: {REASON}")

TRAFFIC = """
import os, socket, sys, time
from suites.testbed import netns

def move(nodes, seconds):
    '''Bytes a second that one TCP connection moves from the second host to the first.'''
    first, second = nodes
    with socket.create_server((first.address, 0)) as server:
        port = server.getsockname()[1]
        child = os.fork()
        if child == 0:
            second.enter()
            with socket.create_connection((first.address, port)) as connection:
                data, end = bytes(1 << 16), time.monotonic() + seconds
                while time.monotonic() < end:
                    connection.sendall(data)
            os._exit(0)
        connection, (peer, _) = server.accept()
        assert peer == second.address, peer
        moved, begun = 0, time.monotonic()
        while part := connection.recv(1 << 20):
            moved += len(part)
        took = time.monotonic() - begun
        connection.close()
        assert os.waitpid(child, 0)[1] == 0
        return moved / took

netns.become_able()
"""


def run(code, prefix=()):
    """In a process of its own: this one's network stays as it is."""
    command = [*prefix, sys.executable, "-c", TRAFFIC + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def namespaces(process="[0-9]*"):
    """Network namespaces that a process, or any, is in or has open."""
    found = set()
    for kept in ("ns/net", "fd/*"):
        for link in Path("/proc").glob(f"{process}/{kept}"):
            try:
                found.add(str(link.readlink()))
            except OSError:
                continue
    return {name for name in found if name.startswith("net:")}


@needs_rights
def test_a_link_carries_its_rate_and_no_more():
    shaped, free = run(
        "with netns.pair(80 * 10**6) as nodes: print(move(nodes, 0.6))\nwith netns.pair() as nodes: print(move(nodes, 0.3))"
    )
    # 10 MB/s with headers; the bucket may be full at first.
    assert 8e6 < float(shaped) < 10.6e6
    assert float(free) > 4 * float(shaped)


@needs_rights
def test_hosts_have_a_network_of_their_own_and_leave_none():
    own, inside, *made, after = run(
        """
names = lambda: ",".join(sorted(name for _, name in socket.if_nameindex()))
print(names())
with netns.pair() as (first, second):
    print(names())
    with socket.create_server(("127.0.0.1", 0)) as server:
        second.enter()
        try:
            socket.create_connection(server.getsockname(), 1)
        except OSError:
            pass
        else:
            raise AssertionError("one host reaches another's loopback")
        first.enter()
        socket.create_connection(server.getsockname(), 1).close()
    for node in (first, second):
        print(os.readlink(node.namespace))
print(names())
"""
    )
    assert inside == "eth0,lo"
    assert own == after
    assert len(set(made)) == 2
    assert not namespaces() & set(made)


@needs_rights
def test_a_killed_process_takes_its_hosts_with_it():
    code = "import signal\nwith netns.pair():\n print(flush=True)\n signal.pause()"
    with subprocess.Popen([sys.executable, "-c", TRAFFIC + code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        made = namespaces(process.pid) - namespaces("self")
        assert len(made) == 2
        process.kill()
        process.wait(20)
    assert not namespaces() & made


as_root = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("setpriv", "unshare"))),
    reason="only root can give rights up, with setpriv and unshare of util-linux",
)
WITHOUT = ("setpriv", "--inh-caps=-all")


@as_root
@needs_rights
def test_without_roots_capabilities_user_namespaces_do():
    # Who maps root's own number needs that one capability; other users map their own.
    prefix = (*WITHOUT, "--bounding-set=-all,+setfcap")
    assert run("with netns.pair() as nodes: print(move(nodes, 0.2) > 1e7)", prefix) == ["True"]


@as_root
def test_where_nothing_is_allowed_the_reason_is_one_line():
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces; exec " + " ".join((*WITHOUT, "--bounding-set=-all"))
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", f'{forbid} "$0" -m suites.testbed.netns', sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unshare" in done.stderr:
        pytest.skip(f"no user namespace to forbid them in: {done.stderr.strip()}")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "neither root's capabilities nor user namespaces" in done.stderr


def test_where_it_cannot_be_done_the_reason_is_one_line(monkeypatch):
    monkeypatch.setattr(netns, "find_spec", lambda name: None)
    assert netns.unavailable() == "pyroute2 is not installed"
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert netns.unavailable() == "no right to emulate hosts (it failed)"
