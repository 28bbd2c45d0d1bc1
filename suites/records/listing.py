"""Tables of sealed sessions, in Markdown: which there are, and which machines they were measured on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suites.records import archive, machine, store
from suites.records.bundle import BundleError, Manifest
from suites.records.notes import FILE, note, notes

Lines = list[dict[str, str]]
PARTS = ("sessions", "history", "machines")
"""Generated parts of a README, each between two comments that bear its name; one that has no lines is left out."""


def division(m: Manifest) -> str:
    """The division of a run in words: `closed` or `open`, and `tuned` where it is."""
    return f"{m.division}, tuned" if m.tuned else m.division


def sessions(folder: Path) -> Lines:
    """A line for each sealed session of a folder: what was measured, where and when, and what `sessions.toml` says of it."""
    lines = []
    for file in store.sealed([folder]):
        runs, begun_ns = archive.manifests(file)
        first, about = runs[0], note(file)
        old = None if about is None else about.superseded
        lines.append(
            {
                "session": file.relative_to(folder).as_posix(),
                "date": datetime.fromtimestamp(begun_ns / 1e9, UTC).date().isoformat(),
                "machine": machine.name(first.environment),
                "commit": _commit(first.environment),
                "division": division(first),
                "runs": str(len(runs)),
                "for": "" if about is None else about.purpose,
                "superseded": "" if old is None else f"{', '.join(old.systems) or 'all'} by {old.by}: {old.why}",
            }
        )
    return lines


def history(folder: Path) -> Lines:
    """A line for each session that `sessions.toml` says is in the history alone, with a commit that has it."""
    file = folder / FILE
    known = notes(file) if file.is_file() else {}
    return [{"session": name, "commit": one.commit, "for": one.purpose} for name, one in known.items() if one.commit]


def _commit(environment: Mapping[str, Any]) -> str:
    changed = " with changes" if environment.get("git_dirty") else ""
    return (environment.get("git_commit") or "-")[:7] + changed


def machines(folder: Path) -> Lines:
    """A line for each machine that sealed sessions of a folder were measured on."""
    found: dict[tuple[Any, ...], list[tuple[str, Sequence[Manifest]]]] = {}
    for file in store.sealed([folder]):
        runs, begun_ns = archive.manifests(file)
        date = datetime.fromtimestamp(begun_ns / 1e9, UTC).date().isoformat()
        found.setdefault(machine.key(runs[0].environment), []).append((date, runs))
    lines = []
    for measured in sorted(found.values(), key=lambda one: min(date for date, _ in one)):
        about = [m.environment for _, runs in measured for m in runs]
        dates = sorted({date for date, _ in measured})
        lines.append(
            {
                "processor": str(about[0]["cpu_model"]),
                "cores": _cores(about[0]),
                "memory": f"{about[0].get('memory_bytes', 0) / 2**30:.0f} GiB",
                "kernel": _all(one.get("kernel") for one in about),
                "virtualised": _all({"True": "yes", "False": "no"}.get(str(one.get("virtualised"))) for one in about),
                "noise floor": _noise(one.get("noise_floor") for one in about),
                "sessions": str(len(measured)),
                "runs": str(sum(len(runs) for _, runs in measured)),
                "dates": dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
            }
        )
    return lines


def _cores(environment: Mapping[str, Any]) -> str:
    quota = environment.get("cpu_quota_cores")
    more = "" if quota is None else f", quota {quota:g}"
    return f"{environment['cpu_usable']} of {environment.get('cpu_count', '?')}{more}"


def _all(values: Iterable[Any]) -> str:
    """Every value that was recorded, once."""
    return ", ".join(sorted({str(value) for value in values if value not in (None, "")})) or "not recorded"


def _noise(values: Iterable[float | None]) -> str:
    known = sorted({value for value in values if value is not None})
    if not known:
        return "not recorded"
    return f"{known[0]:.1%}" if len(known) == 1 else f"{known[0]:.1%} to {known[-1]:.1%}"


def _cell(text: str) -> str:
    """Text that anybody may have written: it neither ends its cell, nor is it a link or HTML."""
    return re.sub(r"([<>\[\]\\])", r"\\\1", text.replace("|", "/"))


def markdown(lines: Lines) -> str:
    """A Markdown table of these lines, which all have the same columns."""
    rows = [list(lines[0]), ["---"] * len(lines[0]), *(list(line.values()) for line in lines)]
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)


def tables(folder: Path) -> dict[str, str]:
    """By name, the generated parts of a folder's README.

    Raises
    ------
    BundleError
        when the folder holds no sealed session, or a damaged one.
    """
    listed = sessions(folder)
    if not listed:
        raise BundleError(f"{folder}: holds no sealed session; `tianji-bench pack` makes them")
    parts = zip(PARTS, (listed, history(folder), machines(folder)), strict=True)
    return {name: markdown(lines) for name, lines in parts if lines}


def write(folder: Path) -> Path:
    """Bring the generated parts of a folder's `README.md` up to date.

    Raises
    ------
    BundleError
        when it has no README, or one without places for them.
    """
    path = folder / "README.md"
    if not path.is_file():
        raise BundleError(f"{path}: no such file; leave --write out")
    text = path.read_text(encoding="utf-8")
    for name, table in tables(folder).items():
        before, begun, rest = text.partition(f"<!-- {name}:")
        head, arrow, _ = rest.partition("-->")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        if not (begun and arrow and end):
            raise BundleError(f"{path}: has no place for the table of {name}: `<!-- {name}: -->` to `<!-- /{name} -->`")
        text = f"{before}{begun}{head}{arrow}\n\n{table}\n{end}{after}"
    path.write_text(text, encoding="utf-8")
    return path
