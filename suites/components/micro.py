"""Micro benchmarks of a revision, which take a few seconds and give medians for the gate."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from suites.components.revision import Revision, RevisionFailed

PREFIX = "micro:"
"""Begins the names of their metrics."""
LIMIT_S = 600.0
BRIEF = ("--benchmark-max-time=0.1", "--benchmark-min-rounds=5", "--benchmark-min-time=0.00002")
"""Rounds of the gate repeat them; pytest-benchmark need not."""


def medians(revision: Revision) -> dict[str, float]:
    """Seconds that each of a revision's micro benchmarks took.

    Raises
    ------
    RevisionFailed
        when they cannot be run, or one fails.
    """
    with tempfile.TemporaryDirectory(prefix="tj") as folder:
        file = Path(folder, "micro.json")
        pytest = [revision.python, "-m", "pytest", "benchmarks", "-q", "-p", "no:cacheprovider", *BRIEF]
        try:
            done = subprocess.run(
                [*pytest, f"--benchmark-json={file}"],
                cwd=revision.tree,
                env=revision.environment(),
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RevisionFailed(f"{revision.name}: micro benchmarks: {error}") from error
        if done.returncode != 0 or not file.exists():
            lines = (done.stdout + done.stderr).strip().splitlines()
            raise RevisionFailed(f"{revision.name}: micro benchmarks: {lines[-1] if lines else 'nothing was said'}")
        return read(file)


def read(file: Path) -> dict[str, float]:
    """Medians of a file that pytest-benchmark wrote, by metric."""
    found = json.loads(file.read_text(encoding="utf-8"))["benchmarks"]
    return {PREFIX + one["fullname"].removeprefix("benchmarks/"): one["stats"]["median"] for one in found}
