"""Testbeds by name, and the two that need no rights: addresses of this host, and a Ray cluster that is asked for its nodes."""

import os
import socket
import subprocess
import sys

import pytest

from programs.cli import ConfigError
from suites.testbed import busy, raycluster
from suites.testbed.base import Shape
from suites.testbed.ray_daemons import workers
from suites.testbed.raycluster import Found, RayCluster
from suites.testbed.registry import open_testbed, unavailable


def test_an_unknown_name_is_one_line():
    with pytest.raises(ConfigError, match=r"^unknown testbed 'moon'; known: local, netns, ray$"):
        open_testbed("moon", Shape(nodes=1))
    assert unavailable("local") is None


def test_local_nodes_are_addresses_of_this_host_and_say_what_they_are_not(monkeypatch):
    monkeypatch.setattr(busy, "LOOP_S", 0.5)
    with open_testbed("local", Shape(nodes=3, cores=0.2, link_bits_per_s=10**9)) as testbed:
        assert [node.address for node in testbed.cluster.nodes] == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
        assert testbed.cluster.home == testbed.home.address == "127.0.0.1"
        checks = testbed.check()
        testbed.limit()
        usage = testbed.usage()
        speeds = testbed.speeds()
        said = testbed.deviations()
    assert [check.node for check in checks] == [used.node for used in usage] == [1, 2, 3]
    assert {check.cores_measured for check in checks} == {used.cpu_s for used in usage} == {None}
    assert all(check.link_measured_bits_per_s > 1e8 and 0 < check.round_trip_s < 0.1 for check in checks)
    assert len(speeds) == 3
    assert min(speeds) > 0
    assert said[1:] == ["no node is limited to 0.2 cores", "no link is limited to 1000 Mbit/s"]


def test_a_ray_cluster_gives_its_first_nodes_or_says_how_many_it_has(monkeypatch):
    found = Found("10.1.0.1:6379", "10.1.0.9", ["10.1.0.1", "10.1.0.2"])
    asked = []
    monkeypatch.setattr(raycluster, "_ask", lambda *what: asked.append(what) or found)
    monkeypatch.setenv("RAY_ADDRESS", "10.1.0.1:6379")
    with RayCluster(Shape(nodes=1, cores=2)) as testbed:
        assert [node.address for node in testbed.cluster.nodes] == ["10.1.0.1"]
        assert (testbed.cluster.home, testbed.cluster.ray_address) == ("10.1.0.9", "10.1.0.1:6379")
        assert testbed.deviations()[1:] == ["no node is limited to 2 cores"]
        assert testbed.usage()[0].cpu_s is None
    assert asked == [("10.1.0.1:6379", 0)]
    with pytest.raises(ConfigError, match=r"^testbed ray: the cluster at 10.1.0.1:6379 has 2 nodes, not 3$"):
        RayCluster(Shape(nodes=3)).set_up()


def test_no_ray_cluster_is_one_line(monkeypatch):
    pytest.importorskip("ray")
    # A port that nobody listens on: that of a server that was closed.
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    with pytest.raises(
        ConfigError, match=rf"^testbed ray: no Ray cluster at 127.0.0.1:{port}: ConnectionRefusedError"
    ) as caught:
        RayCluster(Shape(nodes=1)).set_up()
    assert "\n" not in str(caught.value)


def test_workers_are_told_from_daemons_by_what_they_run(tmp_path):
    sleeping = "import sys, time, subprocess; p = subprocess.Popen(['sleep', '30']); print(p.pid, flush=True); time.sleep(30)"
    folder = tmp_path / "default_worker.py"
    folder.write_text(sleeping)
    started = []
    try:
        for command in (
            [sys.executable, str(folder), "--node-ip-address=1"],
            [sys.executable, "-u", str(folder)],
            # A raylet has a worker's command among its arguments.
            [sys.executable, "-c", sleeping, f"--python_worker_command=python {folder}"],
        ):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            started.append((process, int(process.stdout.readline())))
        everybody = [pid for process, child in started for pid in (process.pid, child)]
        assert workers([*everybody, os.getpid()]) == sorted(everybody[:4])
        assert workers([2**22 + 1]) == []
    finally:
        for process, child in started:
            os.kill(child, 9)
            process.kill()
            process.communicate()
