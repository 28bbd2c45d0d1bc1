"""Sessions: `tests`, `lint`, `bench`, `scaling`, `micro`. Each has an environment of its own, with exact versions."""

from __future__ import annotations

from pathlib import Path

import nox

nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"

# A benchmark that is interrupted ends its children in order, which takes longer than nox allows by default.
GRACE = {"interrupt_timeout": 20.0, "terminate_timeout": 20.0}
QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}


def install(session: nox.Session, extras: str) -> None:
    """This checkout with these extras, at the exact versions of constraints.txt."""
    session.install("-q", "-c", "constraints.txt", "-e", f".[{extras}]", env=QUIET)


@nox.session
def tests(session: nox.Session) -> None:
    """The whole test suite; arguments go to pytest."""
    install(session, "dev")
    session.run("pytest", *session.posargs, **GRACE)


@nox.session
def lint(session: nox.Session) -> None:
    """Format, lint, types and the direction of imports."""
    install(session, "dev")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def bench(session: nox.Session) -> None:
    """The main job: every system side by side, then the report. `-- --resume` goes on with the latest one.

    Other arguments go to `tianji-bench run`.
    """
    install(session, "bench,sb3")
    measure(session, "bench", ["convergence", "transmission", "--profile", "smoke"])


@nox.session
def scaling(session: nox.Session) -> None:
    """One to eight emulated nodes, then the report (6 minutes); needs root. `-- --resume` goes on with the latest one.

    Other arguments go to `tianji-bench run`: `-- scaling --profile standard`, or, on a Ray cluster,
    `-- scaling --testbed ray --nodes 1,2`.
    """
    install(session, "bench")
    measure(session, "scaling", ["scaling", "--profile", "smoke", "--testbed", "netns"])


def measure(session: nox.Session, name: str, usual: list[str]) -> None:
    """Run suites into a new folder, results/NAME-NNN, or what is left of the latest one, and build the report.

    Parameters
    ----------
    usual
        what is run where the session is given no arguments of its own.
    """
    results = Path("results")
    begun = sorted(results.glob(f"{name}-[0-9][0-9][0-9]"))
    resume = "--resume" in session.posargs
    if resume and not begun:
        session.error(f"there is nothing to resume: results/ holds no {name}-NNN; leave --resume out")
    number = 1 + max((int(path.name[-3:]) for path in begun), default=0)
    folder = begun[-1] if resume else results / f"{name}-{number:03d}"
    chosen = [argument for argument in session.posargs if argument != "--resume"] or usual
    run = ["tianji-bench", "run", *chosen, "--out", str(folder)]
    # A failed run is part of the report (exit status 1); it fails the session when the report is there.
    session.run(*run, *(["--resume"] if resume else []), success_codes=[0, 1], **GRACE)
    session.run("tianji-report", "build", str(folder), "--out", str(folder / "report"))
    # Nothing is left to do: this only says again which runs failed, if any did.
    session.run(*run, "--resume", silent=True)


@nox.session
def micro(session: nox.Session) -> None:
    """Optimizer steps, parts of the channel, what it costs at rest, and the system against bare loops (8 minutes)."""
    install(session, "dev")
    session.run("pytest", "benchmarks", "--benchmark-columns=median,iqr,ops,rounds", *session.posargs, **GRACE)
    if not session.posargs:
        session.run("python", "benchmarks/channel.py", **GRACE)
        session.run("python", "-m", "benchmarks.efficiency", "--blocks", "5", "--seconds", "1", **GRACE)
