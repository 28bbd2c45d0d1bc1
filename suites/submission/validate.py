"""Validates sealed sessions: what continuous integration runs over those that others submit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from programs.cli import DONE, FAILED, UNUSABLE
from suites.records import machine
from suites.records.bundle import BundleError
from suites.records.limits import blamed
from suites.submission import division, sanity, surroundings, whole
from suites.submission.session import Session, Verdict, sealed

UNKNOWN = (
    "Not known, and not to be known from a file: whether the numbers are honest, whether the commit's code ran unchanged, "
    "whether other work shared the machine later, and whether other sessions were measured and thrown away."
)


def judge(session: Session, *, earlier: bool = False) -> Verdict:
    """Check a session in every way; see the modules that do it.

    Parameters
    ----------
    earlier
        whether it was sealed by an earlier version, which kept no plan and recorded less: what such a session lacks is a note.
    """
    verdict = Verdict()
    whole.check(session, verdict, earlier=earlier)
    if session.runs:
        surroundings.check(session, verdict, earlier=earlier)
        division.check(session, verdict, earlier=earlier)
        sanity.check(session, verdict)
    return verdict


def described(session: Session) -> str:
    """A session in one line."""
    m = session.first
    blocks = len({one.block for one in session.manifests})
    return (
        f"{len(session.runs)} runs in {blocks} block{'s' * (blocks != 1)} of {m.suite}, {m.division}, "
        f"{'tuned' if m.tuned else 'vanilla'}, on {machine.name(m.environment)}"
    )


def validate(files: Sequence[Path], *, earlier: bool, heads: bool) -> int:
    """Validate sealed sessions and say what was found; errors go to stderr, a line each.

    Parameters
    ----------
    heads
        whether to read the manifests alone: no events, and no digests over them.

    Returns
    -------
    int
        0 when all are valid, 1 when one breaks a rule, 2 when one cannot be read.
    """
    status = DONE
    for file in files:
        try:
            # Anybody may have written it: data of the right form may still make no sense.
            with blamed(file):
                session = sealed(file, events=not heads)
                verdict = judge(session, earlier=earlier)
        except BundleError as error:
            print(f"tianji-bench: {error}", file=sys.stderr)
            status = UNUSABLE
            continue
        verdict.tell(file)
        if verdict.errors:
            status = max(status, FAILED)
        else:
            print(f"{file}: valid{' as far as its manifests say' if heads else ''}: {described(session)}")
        for line in verdict.notes:
            print(f"  note: {line}")
    print(UNKNOWN)
    return status
