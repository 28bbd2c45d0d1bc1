"""Running a command: its time, its last words, and that nothing of it goes on."""

import subprocess
import sys
import time

import psutil
import pytest

from gate import execution
from gate.execution import CommandFailed, run, undisturbed


def test_time_and_output_are_those_of_the_command(tmp_path):
    begun = time.monotonic()
    done = run("it", ["sh", "-c", "echo out; echo err >&2; sleep .1"], tmp_path, tmp_path / "log", 30)
    assert 0.1 <= done.seconds <= time.monotonic() - begun
    assert (done.stdout.read_text(), (tmp_path / "log.err").read_text()) == ("out\n", "err\n")
    assert done.stdout == tmp_path / "log.out"


def test_the_deadline_ends_a_command_that_does_not_listen(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "GRACE_S", 0.05)
    before = psutil.Process().children(recursive=True)
    with pytest.raises(CommandFailed, match=r"it: did not end within 0\.2 s"):
        run("it", ["sh", "-c", "trap '' TERM; sleep 600 & wait"], tmp_path, tmp_path / "log", 0.2)
    assert set(psutil.Process().children(recursive=True)) <= set(before)


def test_a_process_that_outlives_its_command_is_ended(tmp_path):
    daemon = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    print(os.getpid(), flush=True)\n    time.sleep(600)"
    done = run("it", [sys.executable, "-S", "-c", f"{daemon}\ntime.sleep(.2)"], tmp_path, tmp_path / "log", 30)
    pid = int(done.stdout.read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_last_words_are_those_of_the_error_output_where_there_are_any(tmp_path):
    for script, says in (
        ("echo a; echo b >&2; exit 1", "status 1: b$"),
        ("echo a; echo; exit 1", "status 1: a$"),
        ("exit 1", "status 1: it printed nothing$"),
        (r"printf 'bad \377 byte'; exit 1", "status 1: bad \ufffd byte$"),
    ):
        with pytest.raises(CommandFailed, match=says):
            run("it", ["sh", "-c", script], tmp_path, tmp_path / f"log{abs(hash(script))}", 30)


def test_an_interrupt_during_a_clean_up_comes_after_it():
    done = []

    def interrupted():
        with undisturbed():
            subprocess.run(["sh", "-c", "kill -INT $PPID"], check=True)
            done.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["cleaned up"]
