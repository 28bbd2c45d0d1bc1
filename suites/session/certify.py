"""The equivalence certificate of a session: each system, in its own interpreter, on each workload's frozen data."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from baselines import system as systems
from baselines.workload import Workload
from suites.records.bundle import CERTIFICATE, Certificate, scrub, write_certificate
from suites.session.plan import Plan
from tianji.settings import convert

LIMIT_S = 120.0


def certify(plan: Plan, out: Path) -> None:
    """Write `certificate.json`, unless it is there; a system that cannot be certified is noted with the reason."""
    if (out / CERTIFICATE).exists():
        return
    rows: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="tj-certify-") as folder:
        files: dict[str, tuple[Workload, str]] = {}
        for name, data in plan.workloads.items():
            workload = convert(data, Workload, f"workload {name}")
            if workload.certified:
                file = Path(folder) / f"{name}.json"
                file.write_bytes(msgspec.json.encode(data))
                files[name] = workload, str(file)
        for name in plan.systems:
            able = [file for workload, file in files.values() if systems.get(name).unable(workload) is None]
            if not able:
                continue
            arguments = [part for file in able for part in ("--workload", file)]
            command = [*systems.get(name).interpreter(), "-m", "baselines", "check", name, "--json", *arguments]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
                rows += msgspec.json.decode(done.stdout.strip().splitlines()[-1])
            except subprocess.TimeoutExpired:
                failures[name] = f"it took more than {LIMIT_S:.0f} s"
            except (msgspec.DecodeError, IndexError):
                failures[name] = scrub((done.stderr.strip().splitlines() or ["it printed nothing"])[-1])
    certificate = msgspec.convert({"schema": "tianji-bench/certificate/1", "findings": rows, "failures": failures}, Certificate)
    write_certificate(certificate, out)
