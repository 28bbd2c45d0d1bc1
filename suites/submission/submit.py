"""Makes a submission from a session's folder: checked, marked with its division, sealed, with its note and a README."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from programs.cli import DONE, UNUSABLE, ConfigError
from suites.records import archive, bundle, machine, notes
from suites.records.bundle import BundleError
from suites.submission import division as divisions
from suites.submission.session import Division, Session, folder, marked, sealed
from suites.submission.validate import UNKNOWN, described, judge

PLACE = "results/submitted"
"""Where submissions lie in the repository."""


def submit(place: Path, out: Path, *, division: Division, tuned: bool, purpose: str | None) -> int:
    """Check a session's folder and write a submission; everything that is wrong is said at once.

    Parameters
    ----------
    place
        that `tianji-bench run --out` wrote.
    out
        a new folder for the submission.
    purpose
        what the session is for, one line; None: its suite and its workloads.

    Returns
    -------
    int
        0, or 2 when something is wrong; nothing is written then.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out}: exists; name a new folder")
    session = marked(folder(place), division, tuned)
    verdict = judge(session)
    verdict.tell(place)
    if verdict.errors:
        return UNUSABLE
    m = session.first
    name = f"{m.suite}-{m.session}"
    purpose = bundle.scrub(purpose or _purpose(session))
    about = f"[{json.dumps(f'{name}{archive.SUFFIX}')}]\npurpose = {json.dumps(purpose, ensure_ascii=False)}\n"
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{name}{archive.SUFFIX}"
    try:
        (out / notes.FILE).write_text(about, encoding="utf-8")
        notes.notes(out / notes.FILE)
        archive.seal(place, file, lambda run: bundle.marked(run, division, tuned))
        again = judge(sealed(file))
        if again.errors:
            raise BundleError(f"{file}: {again.errors[0]}")
        (out / "README.md").write_text(_readme(session, name, purpose), encoding="utf-8")
    except BundleError as error:
        # Half a submission would look like a whole one.
        for path in (file, out / notes.FILE, out / "README.md"):
            path.unlink(missing_ok=True)
        if made:
            shutil.rmtree(out)
        raise ConfigError(str(error)) from error
    print(f"{file}: {described(session)}, {file.stat().st_size / 1e6:.1f} MB")
    for line in verdict.notes:
        print(f"  note: {line}")
    print(UNKNOWN)
    print("Next, in a checkout of the project:")
    print(f"  1. cp -r {out} {PLACE}/{name}")
    print("  2. tianji-bench sessions results --write      # brings the tables of results/README.md up to date")
    print(f"  3. tianji-bench validate {PLACE}/{name}/{file.name}")
    print("  4. commit both, and open a pull request")
    return DONE


def _purpose(session: Session) -> str:
    workloads = list(dict.fromkeys(m.workload for m in session.manifests))
    return f"Submitted: {session.first.suite}, {', '.join(workloads)}"[:300]


def _readme(session: Session, name: str, purpose: str) -> str:
    """What is in a submission, for a reader who finds its folder."""
    m, manifests = session.first, session.manifests
    systems = {one.system: one.system_title for one in manifests}
    workloads = {one.workload: one.configuration.get("workload", {}) for one in manifests}
    failed = sum(one.status != "completed" for one in manifests)
    lines = [
        f"# {_cell(name)}",
        "",
        f"{_cell(purpose)}.",
        "",
        "| what | |",
        "| --- | --- |",
        f"| division | {m.division}, {'tuned' if m.tuned else 'vanilla'} |",
        f"| suite, profile | {m.suite}, {m.profile} |",
        f"| runs | {len(manifests)}, of which {failed} failed; {len({one.block for one in manifests})} blocks |",
        f"| machine | {_cell(machine.name(m.environment))}, kernel {_cell(str(m.environment.get('kernel')))} |",
        f"| date | {m.environment.get('date')} |",
        f"| commit | {m.environment.get('git_commit')} |",
        *(f"| system | `{one}`: {_cell(title)} |" for one, title in systems.items()),
        *(f"| workload | `{one}`, SHA-256 {divisions.digest(data)} |" for one, data in workloads.items()),
        "",
        f"`{name}{archive.SUFFIX}` is the sealed session, `{notes.FILE}` says what it is for.",
        f"`tianji-bench validate {name}{archive.SUFFIX}` checks it, and",
        f"`tianji-report build {name}{archive.SUFFIX} --out report` draws its report.",
        "",
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text in a Markdown table: of systems and machines that anybody may have named."""
    for sign in "\\`*_{}[]<>|#":
        text = text.replace(sign, f"\\{sign}")
    return text
