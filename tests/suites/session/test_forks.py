"""Jobs in forked processes: all are done, errors are passed on, and no process is left."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import psutil
import pytest

from programs.cli import INTERRUPTED
from suites.session import forks

LONG_S = 60
SCRIPT = f"""
import os, time
from pathlib import Path
from suites.session import forks
from programs.cli import run

def job():
    Path(str(os.getpid())).touch()
    time.sleep({LONG_S})

os.sched_getaffinity = lambda _: {{0, 1}}
raise SystemExit(run("forks", lambda _: forks.at_once([job, job, job]) or 0, []))
"""


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.fixture
def begun(tmp_path):
    """A process whose two children each have a long job begun; the children."""
    parent = subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE)
    with parent:
        while len(list(tmp_path.iterdir())) < 2:
            assert parent.poll() is None
            time.sleep(0.02)
        yield parent, [psutil.Process(int(path.name)) for path in tmp_path.iterdir()]
        parent.kill()


def write(file, barrier):
    """Says which process wrote; no process goes on before two are here."""
    barrier.touch()
    while len(list(barrier.parent.glob("here-*"))) < 2:
        time.sleep(0.01)
    file.write_text(str(os.getpid()))


def children():
    return [child for child in psutil.Process().children() if child.name() == "tj-fork"]


def test_every_job_is_done_by_one_of_several_processes(tmp_path):
    files = [tmp_path / f"{i}" for i in range(7)]
    forks.at_once([partial(write, file, tmp_path / f"here-{i}") for i, file in enumerate(files)])
    writers = {file.read_text() for file in files}
    assert len(writers) == 2
    assert str(os.getpid()) not in writers
    assert not children()


@pytest.mark.parametrize("cores", [1, 2])
def test_one_job_or_one_core_needs_no_process(monkeypatch, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    found = []
    forks.at_once([lambda: found.append(os.getpid())] * (1 if cores > 1 else 3))
    assert set(found) == {os.getpid()}


def test_what_a_job_raises_is_raised_here_and_no_process_is_left(tmp_path):
    with pytest.raises(IsADirectoryError):
        forks.at_once([lambda: None, lambda: tmp_path.write_text("no"), lambda: None])
    assert not children()


def test_a_process_that_is_killed_is_an_error_and_no_process_is_left():
    with pytest.raises(BrokenProcessPool):
        forks.at_once([lambda: None, lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: None])
    assert not children()


def test_processes_end_with_a_parent_that_is_killed(begun):
    parent, both = begun
    parent.kill()
    assert not psutil.wait_procs(both, timeout=20)[1]


def test_nothing_is_left_of_an_interrupt(begun):
    parent, both = begun
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.wait(20) == INTERRUPTED
    assert not psutil.wait_procs(both, timeout=20)[1]
    assert parent.stderr.read() == b"forks: interrupted\n"
