"""Where a view's numbers come from: its sealed sessions, and the command that measures each again."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from reports.view import View, in_order
from suites.records.bundle import Bundle
from suites.records.limits import BundleError
from suites.records.notes import Note, note
from suites.records.statement import NONE

SEALED = ".parquet"
"""Suffix of a sealed session; the runs of any other folder lie in it one by one."""


class Source(NamedTuple):
    """One session that a view's runs are from."""

    file: str
    """Sealed session, or folder of runs."""
    purpose: str | None
    """What the session was measured for."""
    runs: int
    plan: str
    """What was stated before it began, and in what it departs from the rules of measurement."""
    commits: str
    """Revisions of the code that ran; empty where none is known."""
    command: str
    """It measures the same cells again."""


def sources(view: View) -> list[Source]:
    """The sessions of a view's runs, by file."""
    files: dict[Path, list[Bundle]] = {}
    for b in view.runs:
        files.setdefault(b.path.parent, []).append(b)
    found = []
    for file, runs in sorted(files.items()):
        commits = {str(b.manifest.environment.get("git_commit") or "")[:10] for b in runs} - {""}
        stated, about = view.data.stated.get(runs[0].manifest.session), _about(file)
        plan = NONE if stated is None else stated.words
        plan += f". Deviation: {about.deviation}" if about and about.deviation is not None else ""
        purpose, told = about.purpose if about else None, ", ".join(sorted(commits))
        found.append(Source(_relative(file), purpose, len(runs), plan, told, command(view, runs)))
    return found


def command(view: View, runs: list[Bundle]) -> str:
    """The command that measures these runs of one session again."""
    manifests = [b.manifest for b in runs]
    first = manifests[0]
    systems = list(dict.fromkeys(m.system for m in sorted(manifests, key=lambda m: m.position)))
    words = ["python", "-m", "suites", "run", view.suite, "--profile", first.profile]
    words += ["--workloads", ",".join(view.workloads_of(runs))]
    words += ["--systems", ",".join(in_order(systems))]
    words += ["--seeds", str(len({m.block for m in manifests})), "--first-seed", str(min(m.seed for m in manifests))]
    words += [] if any(m.replica for m in manifests) else ["--once"]
    if view.counts_nodes:
        nodes = sorted({m.nodes for m in manifests})
        words += ["--testbed", first.testbed, "--nodes", ",".join(map(str, nodes))]
    stated = view.data.stated.get(first.session)
    # The plan that is sealed with them holds what these files held.
    words += ["--predictions", "FILE"] if stated is not None and stated.predictions is not None else []
    words += ["--tuned", "FILE..."] if "options" in first.configuration else []
    return shlex.join([*words, "--out", "DIR"])


def _relative(file: Path) -> str:
    """A path from the folder that the report is built in, or a name alone: no report tells where a user's folders are."""
    try:
        return file.absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return file.name


def _about(file: Path) -> Note | None:
    with suppress(BundleError):
        return note(file) if file.suffix == SEALED else None
    return None
