"""Accounts of processes and connections, against what they were made to use."""

import os
import socket
import subprocess
import sys
import time

import pytest

from suites.transmission.accounting import Account, Accounts, Used, cpu_seconds
from tianji.launch.node import here


def test_one_that_ended_takes_nothing_away():
    before = Account({1: 5.0, 2: 1.0}, {10: 100, 11: 7})
    after = Account({2: 1.5, 3: 0.25}, {11: 8, 12: 30})
    assert after.since(before) == Used(0.75, 31.0)


def test_what_was_not_counted_is_not_zero():
    assert Account({1: 2.0}, None).since(Account({1: 1.0}, {})) == Used(1.0, None)


def test_a_process_clock_is_that_process_and_all_its_threads():
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert 0.3 <= cpu_seconds(process.pid) < 5
        process.communicate(b"\n", timeout=20)
    assert cpu_seconds(process.pid) is None
    assert cpu_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.2)


def test_tcp_bytes_are_those_of_our_own_connections(monkeypatch):
    # No keeper is above this process: what its parent started beside it is another test's.
    monkeypatch.setattr(os, "getppid", os.getpid)
    with (
        Accounts([here()]) as accounts,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as there,
    ):
        back, _ = server.accept()
        with back:
            before = accounts.read()
            there.sendall(bytes(12_345))
            back.sendall(bytes(55))
            left = 12_345
            while left:
                left -= len(back.recv(left))
            assert len(there.recv(55, socket.MSG_WAITALL)) == 55
            assert accounts.read().since(before).tcp_bytes == 12_400
