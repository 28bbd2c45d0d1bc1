"""Starts a Ray cluster on given nodes: one `ray start` for each, first the head, then all others at once.

Processes need the cluster's token to join. It is in this process's environment while the cluster runs. A driver must run on a
node, because Ray accepts drivers only where one of its daemons is.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from tianji.launch.node import Node

CPUS = 64
"""CPUs that Ray may assign on each node. The budget decides on their real share."""
RESOURCES = {"runner": 1, "learner": 1}
OBJECT_STORE_BYTES = 1 << 28
START_LIMIT_S = 120.0
END_LIMIT_S = 10.0
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Its share of all memory would be taken for each node's own.
    "RAY_memory_monitor_refresh_ms": "0",
}
TOKEN_NAME = "RAY_AUTH_TOKEN"  # noqa: S105 (a variable's name)
ADDRESS_FILE = "ray_current_cluster"
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
WORKER_PROGRAMS = ("default_worker.py", "setup_worker.py")


@contextmanager
def ray_on(nodes: Sequence[Node]) -> Iterator[str]:
    """Ray's daemons on some nodes, while the block lasts.

    Parameters
    ----------
    nodes
        the head's first. What is started there joins these nodes' control groups.

    Yields
    ------
    the cluster's address.

    Raises
    ------
    RuntimeError
        when a daemon does not come up.
    """
    token = secrets.token_hex(32)
    with ExitStack() as stack:
        # Short: the paths of sockets lie in it.
        folder = Path(tempfile.mkdtemp(prefix="r"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        earlier = {name: os.environ.get(name) for name in (*ENVIRONMENT, TOKEN_NAME)}
        stack.callback(_restore, earlier)
        os.environ.update({**ENVIRONMENT, TOKEN_NAME: token})
        # In reverse: daemons end before their folder goes.
        stack.callback(_end, token)
        deadline = time.monotonic() + START_LIMIT_S
        first, *others = nodes
        head = ["--head", "--port=0", "--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={folder}/1"]
        _Start(first, head, folder / "1.log", stack).wait(deadline)
        address = (folder / "1" / ADDRESS_FILE).read_text().strip()
        joins = [
            _Start(node, [f"--address={address}", f"--temp-dir={folder}/{number}"], folder / f"{number}.log", stack)
            for number, node in enumerate(others, 2)
        ]
        for join in joins:
            join.wait(deadline)
        yield address


class _Start:
    """`ray start` on a node; it is over when the daemons are up."""

    def __init__(self, node: Node, arguments: Sequence[str], log: Path, stack: ExitStack) -> None:
        self._node, self._log = node, log
        command = [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", *arguments),
            f"--node-ip-address={node.address}",
            f"--num-cpus={CPUS}",
            f"--resources={json.dumps(RESOURCES)}",
            f"--object-store-memory={OBJECT_STORE_BYTES}",
            "--include-log-monitor=false",
        ]
        with log.open("wb") as output:
            self._process = node.popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        stack.callback(self._process.wait)
        stack.callback(self._process.kill)

    def wait(self, deadline: float) -> None:
        try:
            status = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"Ray's daemons on node {self._node.address} did not come up in {START_LIMIT_S:.0f} s") from None
        if status != 0:
            said = self._log.read_text(errors="replace").strip().splitlines()
            reason = said[-1] if said else f"status {status}"
            raise RuntimeError(f"Ray does not start on node {self._node.address}: {reason}")


def _end(token: str) -> None:
    """Kill all processes that have this cluster's token in their environment, and their descendants."""
    ours: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(TOKEN_NAME) == token and _is_daemon(process):
                # Agents and workers name themselves where their environment stood.
                ours.update((found.pid, found) for found in (process, *process.children(recursive=True)))
        except psutil.Error:
            continue
    for process in ours.values():
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(list(ours.values()), timeout=END_LIMIT_S)


def _restore(earlier: dict[str, str | None]) -> None:
    for name, value in earlier.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _is_daemon(process: psutil.Process) -> bool:
    """Whether it is a program of Ray's own: other children of this process have the token too."""
    return any("/ray/" in part or part.startswith("ray.") for part in process.cmdline()[:4])


def workers(pids: Sequence[int]) -> list[int]:
    """Processes that run a user's code for Ray, and their descendants. All other processes of Ray are daemons."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for pid in pids:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            status = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[pid] = int(status.rpartition(")")[2].split()[1])
        if _is_worker([part.decode(errors="replace") for part in command]):
            found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return sorted(found)


def _is_worker(command: Sequence[str]) -> bool:
    if command[0].startswith("ray::"):
        return command[0].strip() not in AGENTS
    # The third part and those behind it are anybody's: a raylet has a worker's whole command among them.
    return any(Path(part).name in WORKER_PROGRAMS for part in command[1:3])
