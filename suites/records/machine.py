"""Description of the machine of a result: hardware, kernel, versions, limits. It has no host name, user name or path."""

from __future__ import annotations

import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from programs import cores

PACKAGES = ("numpy", "torch", "ray", "stable-baselines3", "gymnasium", "box2d", "ale-py", "pyzmq", "msgspec", "safetensors")
ROOT = Path(__file__).parents[2]
WINDOWS, WINDOW_S = 20, 0.05
LOOP_S = 1.0
CHANGED_SHARE = 0.3
"""A machine changed during a block if it was faster in one run than in another by more than this share."""
_LOOP = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
loops, start = 0, time.perf_counter()
while (took := time.perf_counter() - start) < float(sys.argv[2]):
    sum(range(2_000))
    loops += 1
print(loops / took)
"""


def manifest() -> dict[str, Any]:
    """The environment of this process, as plain data."""
    return {
        "cpu_model": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "cpu_usable": len(os.sched_getaffinity(0)),
        "cpu_quota_cores": cores.quota(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_1min_at_start": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "virtualised": _virtualised(),
        "date": datetime.now(UTC).date().isoformat(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {name: v for name in PACKAGES if (v := _version(name))},
        "threads_per_role": 1,
        **_gpus(),
        **_revision(),
    }


def name(environment: dict[str, Any]) -> str:
    """Name of the machine of a manifest."""
    cores = environment["cpu_usable"]
    processors = f"{cores} core{'s' * (cores != 1)} of {environment['cpu_model']}"
    gpus = [f"{count} {model}" for model, count in Counter(environment.get("gpus", ())).items()]
    return " and ".join([processors, *gpus])


def key(environment: dict[str, Any]) -> tuple[Any, ...]:
    """Key that identifies a machine: processor, cores, quota, GPUs, memory in GiB, and the kernel without its build."""
    cpu = environment.get("cpu_model"), environment.get("cpu_usable"), environment.get("cpu_quota_cores")
    kernel = re.match(r"[\d.]*", environment.get("kernel", ""))
    gpus = tuple(environment.get("gpus", ()))
    return *cpu, gpus, round(environment.get("memory_bytes", 0) / 2**30), kernel and kernel[0]


def names(environments: Iterable[dict[str, Any]]) -> dict[tuple[Any, ...], str]:
    """Name of each machine by key, with memory and kernel if names would be equal."""
    found = {key(one): name(one) for one in environments}
    alike = Counter(found.values())
    return {
        one: called if alike[called] == 1 else f"{called}, {one[-2]} GiB, kernel {one[-1]}" for one, called in found.items()
    }


def noise_floor() -> float:
    """Scatter of one core's speed: standard deviation over mean of a fixed loop's rate in windows of 50 ms."""
    rates = []
    for _ in range(WINDOWS):
        loops, start = 0, time.perf_counter()
        while (took := time.perf_counter() - start) < WINDOW_S:
            sum(range(2_000))
            loops += 1
        rates.append(loops / took)
    return round(statistics.stdev(rates) / statistics.mean(rates), 4)


def bare_loop(on: Sequence[int], seconds: float = LOOP_S) -> float | None:
    """How fast these cores are just now: the mean rate of a fixed loop, on all of them at once.

    It says of each run what machine it had: before and after it nothing else of the session runs.

    Returns
    -------
    float or None
        loops a second and core; None where it cannot be told.
    """
    command = [sys.executable, "-I", "-S", "-c", _LOOP]
    running = [subprocess.Popen([*command, str(core), str(seconds)], stdout=subprocess.PIPE, text=True) for core in on]
    try:
        said = [one.communicate(timeout=20)[0] for one in running]
    except subprocess.TimeoutExpired:
        return None
    finally:
        for one in running:
            one.kill()
            one.wait()
    return None if any(one.returncode for one in running) else round(statistics.mean(map(float, said)), 1)


def changed(environments: Iterable[dict[str, Any]]) -> float:
    """By what share the speed of a machine differed between these runs: the fastest over the slowest, less 1.

    A run's speed is the mean of its two bare loops: single ones range by .8 on a guest beside others.
    """
    read = [[rate for rate in one.get("bare_loop") or () if rate] for one in environments]
    rates = [statistics.mean(own) for own in read if own]
    return max(rates) / min(rates) - 1.0 if rates else 0.0


def _virtualised() -> bool | None:
    """Whether a hypervisor is beneath, where the processor says so; None elsewhere."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if flags is None else "hypervisor" in flags[1].split()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _gpus() -> dict[str, Any]:
    """Models of NVIDIA's GPUs, and their driver; nothing where there are none."""
    if shutil.which("nvidia-smi") is None:
        return {}
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    models = [line.rpartition(", ") for line in said.splitlines()]
    return {"gpus": [model for model, _, _ in models], "gpu_driver": models[0][2]} if models else {}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _revision() -> dict[str, Any]:
    """Commit of the checkout and whether it differs; both None for an installed copy."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("rev-parse", "--show-prefix") != "":
        return {"git_commit": None, "git_dirty": None}
    status = git("status", "--porcelain")
    return {"git_commit": git("rev-parse", "HEAD"), "git_dirty": None if status is None else bool(status)}
