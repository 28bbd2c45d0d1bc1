"""Fixtures for all tests: processes, descriptors and files of a test must be gone when it ends."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import shared_memory
import two_ray_nodes

# Ray's workers are polite (niceness 15): beside the other tests, which are not, they would get next to nothing.
os.environ.update({"RAY_worker_niceness": "0"})
# Tests fill all cores already: threads of a library would only wait for each other, and by spinning.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
# Collected tests are many objects that stay: to look through young ones often finds little (docs/notebook/2026-11-speed.md).
gc.set_threshold(50_000, 20, 50)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the group `ray` come first: one process runs them, one after another, and nobody waits for it at the end."""
    items.sort(key=lambda item: ("ray",) not in [mark.args for mark in item.iter_markers("xdist_group")])


def _descriptors() -> set[str]:
    """What is open, without what the interpreter and the libraries keep for themselves."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith(("socket:", "/memfd:")) or "tianji" in target:
            found.add(f"{entry.name} -> {target}")
    return found


@pytest.fixture(scope="session")
def ray_nodes() -> Iterator[dict[str, Any]]:
    """A Ray cluster of two nodes on this host; tests that use it are of the group `ray`, so that there is one.

    Its folder's path is short: it holds sockets.
    """
    folder = Path(tempfile.mkdtemp(prefix="tj-ray"))
    with two_ray_nodes.running(folder) as cluster:
        yield cluster
    shutil.rmtree(folder)


def _of_the_library(process: psutil.Process) -> bool:
    """The one helper that `multiprocessing` starts with the first process that it spawns, and ends with this one."""
    return any("multiprocessing.resource_tracker" in part for part in process.cmdline())


def _has_children() -> bool:
    """Whether this process has a child, by a question to the kernel; psutil reads about every process of the machine."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which laws of which disciplines were checked and held."""
    held: dict[str, int] = {}
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "law":
                held[value] = held.get(value, 0) + 1
    if held:
        terminalreporter.section("laws of disciplines that held")
    for law, runs in sorted(held.items()):
        terminalreporter.write_line(f"{law} ({runs} runs)")


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_works() -> None:
    """A suite that a script runs in the background inherits SIGINT as ignored, and would pass that on to what it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    """Fail a test that leaves a child process, shared memory, or an open socket behind."""
    shared = shared_memory.names()
    before = _descriptors()
    yield
    if not _descriptors() <= before:
        # Perhaps only garbage. Collecting takes a third of a second when all systems are loaded: not after every test.
        gc.collect()
    found = psutil.Process().children(recursive=True) if _has_children() else []
    children = [child for child in found if not _of_the_library(child)]
    for child in children:
        child.kill()  # Or every test after this one would fail, too.
    assert not children, f"processes left behind: {children}"
    assert not (left := shared_memory.left_behind(shared)), f"shared memory left behind: {left}"
    assert _descriptors() <= before, "sockets or memory files left open"
