"""What a session was measured on: one machine, idle, at a clean commit, completely described, with nothing private."""

from __future__ import annotations

import ipaddress
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import msgspec

from suites.records import bundle, machine
from suites.submission.session import Session, Verdict, called, some

NEEDED = (
    "cpu_model",
    "cpu_count",
    "cpu_usable",
    "memory_bytes",
    "load_1min_at_start",
    "kernel",
    "system",
    "python",
    "packages",
    "date",
)
"""Facts about the machine that must be there, and not be empty."""
LOAD = 0.5
"""Load per core at the beginning that counts as idle, as `tianji-bench doctor` has it."""
LOAD_OF_FIRST_RUN = 1.5
"""Load per core at the first run: by then the session's own certificate has used the machine."""
NOISE = 0.15
"""Scatter of one core's speed above which a machine is not quiet."""
_WINDOWS = re.compile(r"\b[A-Za-z]:\\[\w.-]+")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*")
_ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")


def check(session: Session, verdict: Verdict, *, earlier: bool) -> None:
    """Check the manifests' environments, and all text for what says whose machine it was.

    Parameters
    ----------
    earlier
        whether what earlier versions did not record, or did not ask for, is a note and no error.
    """
    say = verdict.note if earlier else verdict.wrong
    environments = [m.environment for m in session.manifests]
    for name in NEEDED:
        if lacking := sum(environment.get(name) in (None, "", {}) for environment in environments):
            say(f"{lacking} of {len(environments)} runs do not say `{name}` of their machine")
    if len({machine.key(environment) for environment in environments}) > 1:
        verdict.wrong("its runs were measured on different machines; make a session for each")
    _software(environments, verdict)
    _idle(session, say)
    _private(session, verdict)


def _software(environments: list[dict[str, Any]], verdict: Verdict) -> None:
    """One clean commit, one Python, one set of packages."""
    commits = {environment.get("git_commit") for environment in environments}
    if None in commits:
        verdict.wrong("it has no commit; measure from a git checkout of the project")
    elif len(commits) > 1:
        verdict.wrong(f"its runs are of {len(commits)} commits; measure all of them at one")
    elif not re.fullmatch(r"[0-9a-f]{40}", str(next(iter(commits)))):
        verdict.wrong("its commit is no full git hash")
    elif not _in_history(str(next(iter(commits)))):
        verdict.note(
            f"commit {next(iter(commits))} is not in this checkout: nobody can get the code that was measured from here"
        )
    if any(environment.get("git_dirty") is not False for environment in environments):
        verdict.wrong("the checkout had uncommitted changes; commit them, then measure again")
    for name in ("python", "packages"):
        if len({msgspec.json.encode(environment.get(name), order="sorted") for environment in environments}) > 1:
            verdict.wrong(f"`{name}` changed during the session")


def _in_history(commit: str) -> bool:
    """Whether the checkout has this commit; true where there is no checkout to ask."""
    git = ["git", "-C", str(machine.ROOT)]
    try:
        asked = subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, timeout=20, check=False)
        return asked.returncode == 0 or not (machine.ROOT / ".git").exists()
    except (OSError, subprocess.TimeoutExpired):
        return True


def _idle(session: Session, say: Any) -> None:
    """The load and the noise at the beginning, as far as they were recorded."""
    first, plan = session.first.environment, session.plan
    cores = first.get("cpu_usable") or 1
    begun = None if plan is None else plan.load_1min
    load, most = (first.get("load_1min_at_start"), LOAD_OF_FIRST_RUN) if begun is None else (begun, LOAD)
    if load is not None and load > most * cores:
        say(f"the machine was busy when it began: load {load:g} on {cores} cores; at most {most * cores:g} counts as idle")
    noise = first.get("noise_floor")
    if noise is not None and noise > NOISE:
        say(f"the machine was not quiet when it began: one core's speed scattered by {noise:.0%}; at most {NOISE:.0%} may be")


def _private(session: Session, verdict: Verdict) -> None:
    """No absolute paths, mail addresses or public addresses of hosts in any text; names of hosts cannot be recognised."""
    places: list[tuple[str, Any]] = [(called(run.manifest), (run.manifest, run.events)) for run in session.runs]
    places += [("its plan", session.plan), ("its certificate", session.certificates)]
    found: dict[str, list[str]] = {}
    for place, value in places:
        for text in _texts(msgspec.to_builtins(value)):
            for what in private(text):
                found.setdefault(what, []).append(place)
    for what, where in found.items():
        verdict.wrong(f"holds {what}, which says whose machine it was: {some(list(dict.fromkeys(where)))}")


def private(text: str) -> Iterator[str]:
    """What in a text says whose machine it was."""
    if bundle.PATH.search(text) or _WINDOWS.search(text):
        yield "an absolute path"
    if _MAIL.search(text):
        yield "a mail address or a user at a host"
    for found in _ADDRESS.findall(text):
        try:
            if ipaddress.ip_address(found).is_global:
                yield "a public network address"
        except ValueError:
            continue


def _texts(value: Any) -> Iterator[str]:
    """Every text in plain data, keys too."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            waiting += one
