"""Nox sessions for tests, linters, benchmarks and documentation; `nox --list` shows them.

Each session has its own environment with exact versions.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"

# A benchmark that is interrupted ends its children in order, which takes longer than nox allows by default.
GRACE = {"interrupt_timeout": 20.0, "terminate_timeout": 20.0}
LATER = "--no-compile"
"""Modules are compiled at their first import, since most are never imported. Sessions that measure do not use this, because
their first run would include compilation."""
SITE = {"NO_MKDOCS_2_WARNING": "1"}
"""Hides the theme's advertisement of its successor."""
SHOWN = ("reference", "again", "placement", "price")
"""Folders of sealed sessions of the README and the site: all that are kept, but for what others submitted."""
QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}


def install(session: nox.Session, extras: str, *arguments: str) -> None:
    """Install this checkout with these extras, at the exact versions of constraints.txt."""
    session.install("-q", *arguments, "-c", "constraints.txt", "-e", f".[{extras}]", env=QUIET)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests on all cores, without those marked `long`. `-- --everything`: with them.

    Other arguments go to pytest (`-- -n 0`: one test after another; `-- -m long`: only those that take long).
    """
    install(session, "dev", LATER)
    # Tests start a thousand processes, which share compiled modules even if none are written next to the sources.
    compiled = {
        "PYTHONPYCACHEPREFIX": str(Path(session.virtualenv.location, "compiled").absolute()),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    # One more process than cores, because some tests wait. Tests that share a costly fixture form a group and stay together.
    parallel = [f"--numprocesses={min(8, len(os.sched_getaffinity(0)) + 1)}", "--dist=loadgroup"]
    chosen = [argument for argument in session.posargs if argument != "--everything"]
    quick = [] if "--everything" in session.posargs or "-m" in chosen else ["-m", "not long"]
    session.run("pytest", *parallel, *quick, *chosen, env=compiled, **GRACE)


@nox.session
def lint(session: nox.Session) -> None:
    """Format, lint, types and the direction of imports."""
    install(session, "lint", LATER)
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def bench(session: nox.Session) -> None:
    """Run the main benchmark: every system side by side, then the answer and its page. `-- --resume` continues the latest.

    Other arguments go to `tianji-bench run`.
    """
    install(session, "bench,sb3")
    measure(session, "bench", ["convergence", "transmission", "--profile", "smoke"])


@nox.session
def scaling(session: nox.Session) -> None:
    """Run one to eight emulated nodes, then the report (6 minutes). Needs root. `-- --resume` continues the latest session.

    Other arguments go to `tianji-bench run`: `-- scaling --profile standard`, or, on a Ray cluster,
    `-- scaling --testbed ray --nodes 1,2`.
    """
    install(session, "bench")
    measure(session, "scaling", ["scaling", "--profile", "smoke", "--testbed", "netns"])


def folders(name: str) -> list[Path]:
    """Folders of earlier sessions of this name, oldest first."""
    return sorted(Path("results").glob(f"{name}-[0-9][0-9][0-9]"))


def fresh_folder(name: str) -> Path:
    """The folder of the next one: results/NAME-NNN."""
    return Path("results", f"{name}-{1 + max((int(path.name[-3:]) for path in folders(name)), default=0):03d}")


def measure(session: nox.Session, name: str, usual: list[str]) -> None:
    """Run suites into a new folder, results/NAME-NNN, or resume the latest one, and build the report.

    Parameters
    ----------
    usual
        arguments if the session gets none.
    """
    begun = folders(name)
    resume = "--resume" in session.posargs
    if resume and not begun:
        session.error(f"there is nothing to resume: results/ holds no {name}-NNN; leave --resume out")
    folder = begun[-1] if resume else fresh_folder(name)
    chosen = [argument for argument in session.posargs if argument != "--resume"] or usual
    run = ["tianji-bench", "run", *chosen, "--out", str(folder)]
    # A failed run is part of the report (exit status 1); it fails the session when the report is there.
    session.run(*run, *(["--resume"] if resume else []), success_codes=[0, 1], **GRACE)
    session.run("tianji-report", "build", str(folder), "--out", str(folder / "report"))
    # Nothing is left to do: this only says again which runs failed, if any did.
    session.run(*run, "--resume", silent=True)


@nox.session(venv_backend="none")
def environment(session: nox.Session) -> None:
    """Make the environment of a system that needs its own, .nox/environment-NAME: `-- sbx`. It is made anew if it is there."""
    kept = Path("baselines", "environments")
    known = sorted(path.stem for path in kept.glob("*.txt"))
    if len(session.posargs) != 1 or session.posargs[0] not in known:
        session.error(f"name one environment after `--`: {', '.join(known)}")
    (name,) = session.posargs
    folder = Path(".nox", f"environment-{name}").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    session.run(sys.executable, "-m", "venv", str(folder))
    exact = str(kept / f"{name}.txt")
    extras = nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]
    # A system with which this project clashes has no extra. Then the file lists all that there is to be.
    chosen = ["-c", exact, "-e", f".[{name}]"] if name in extras else ["--no-deps", "-r", exact]
    session.run(str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *chosen, env=QUIET, external=True)
    # What `baselines.environments` looks for: an environment is not used before all of it is there.
    (folder / "made").touch()


@nox.session
def paper(session: nox.Session) -> None:
    """Figures for a paper, and the report, from bundles alone: those of results/reference, or `-- DIR...`."""
    install(session, "report")
    chosen = session.posargs or ["results/reference"]
    folder = fresh_folder("paper")
    session.run("tianji-report", "paper", *chosen, "--out", str(folder / "figures"))
    session.run("tianji-report", "build", *chosen, "--out", str(folder / "report"))


@nox.session
def readme(session: nox.Session) -> None:
    """README.md's results and docs/pictures, from sealed sessions; `-- --check`: are they up to date?"""
    install(session, "report")
    where = ["--readme", "README.md", "--pictures", "docs/pictures"]
    session.run("tianji-report", "readme", *[f"results/{place}" for place in SHOWN], *where, *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, in site/, with the report in site/report, and links checked. `-- serve` shows pages alone."""
    wanted = nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]["docs"]
    session.install("-q", LATER, "-c", "constraints.txt", *wanted, env=QUIET)
    if session.posargs:
        session.run("mkdocs", *session.posargs, env=SITE, **GRACE)
        return
    session.run("mkdocs", "build", "--quiet", "--clean", "--strict", env=SITE)
    install(session, "report")
    session.run("tianji-report", "build", *[f"results/{place}" for place in SHOWN], "--out", "site/report")
    session.run("python", "docs/hooks/check.py", "site")


@nox.session
def regression(session: nox.Session) -> None:
    """Is this revision worse than another one? `-- --base REV`; fails if it is (docs/ci.md).

    Other arguments go to `tianji-bench against`: `--micro`, `--parts sampling,channel-shm`, `--most 9`. With
    `--suites transmission,convergence` whole suites are run in turns instead, in the smoke profile: `--blocks 5` seeds of
    TianJi, or `--blocks 5,8,12` as long as it is not decided.
    """
    options = argparse.ArgumentParser(prog="nox -s regression --")
    options.add_argument("--base", required=True)
    options.add_argument("--suites")
    options.add_argument("--blocks", default="5")
    options.add_argument("--out", type=Path)
    chosen, more = options.parse_known_args(session.posargs)
    install(session, "dev")
    python, tree = other_revision(session, chosen.base)
    folder = chosen.out or fresh_folder("regression")
    if chosen.suites is None:
        base = ["--base-python", python, "--base-tree", tree]
        session.run("tianji-bench", "against", *base, *more, "--out", str(folder), **GRACE)
        session.run("tianji-report", "compare", str(folder), *outputs(folder))
        return
    looks = [int(number) for number in chosen.blocks.split(",")]
    if looks[0] < 5:
        session.error("--blocks: whole runs are compared from five seeds on")
    for seed in range(looks[-1]):
        sides = [("base", python, tree), ("head", "python", ".")]
        for side, interpreter, place in sides if seed % 2 == 0 else sides[::-1]:
            cell = ["--systems", "tianji", "--once", "--seeds", "1", "--first-seed", str(seed), *more]
            out = (folder / side / f"seed-{seed}").absolute()
            with session.chdir(place):
                run = [interpreter, "-m", "suites", "run", *chosen.suites.split(","), *cell, "--out", str(out)]
                # A failed run is a finding, too.
                session.run(*run, success_codes=[0, 1], external=True, **GRACE)
        if seed + 1 in looks:
            sides_and_looks = [str(folder / "base"), str(folder / "head"), "--looks", str(len(looks))]
            told = folder / f"after-{seed + 1}.json"
            session.run("tianji-report", "compare", *sides_and_looks, "--json", str(told), success_codes=[0, 1])
            if seed + 1 == looks[-1] or json.loads(told.read_text())["verdict"] != "inconclusive":
                session.run("tianji-report", "compare", *sides_and_looks, *outputs(folder))
                return


def other_revision(session: nox.Session, name: str) -> tuple[str, str]:
    """Interpreter and tree of another revision: checked out beside this one and built, or as it was built before."""

    def git(*arguments: str) -> str:
        return session.run("git", *arguments, external=True, silent=True, log=False).strip()

    commit = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    folder = Path(".nox", f"revision-{commit[:12]}").absolute()
    tree, python = folder / "tree", folder / "env" / "bin" / "python"
    if not (folder / "built").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        git("clone", "--quiet", "--shared", "--no-checkout", ".", str(tree))
        git("-C", str(tree), "checkout", "--quiet", "--detach", commit)
        session.run("python", "-m", "venv", str(folder / "env"))
        wanted = ["-q", "-c", str(tree / "constraints.txt"), "-e", f"{tree}[dev]"]
        session.run(str(python), "-m", "pip", "install", *wanted, env=QUIET, external=True)
        (folder / "built").touch()
    return str(python), str(tree)


def outputs(folder: Path) -> list[str]:
    """Output files of a comparison, as options."""
    return [
        f"--{kind}={folder / name}"
        for kind, name in (("json", "regression.json"), ("junit", "regression.xml"), ("markdown", "regression.md"))
    ]


@nox.session
def conformance(session: nox.Session) -> None:
    """Check whether every system that can run here keeps the contract. `-- NAME...`: only these."""
    install(session, "bench,sb3")
    listed = session.run("python", "-m", "baselines", "list", silent=True, log=False)
    able = [line.partition(":")[0] for line in listed.splitlines() if "(cannot run here: " not in line]
    failed, unchecked = [], []
    for name in session.posargs or able:
        try:
            session.run("python", "-m", "baselines", "check", name, "--only", "conformance", **GRACE)
        except CommandFailed as ended:
            # Status 2 says that it was not checked at all: there is no such system, or no workload for it.
            (unchecked if ended.return_code == 2 else failed).append(name)
    told = [f"{what}: {', '.join(names)}" for what, names in (("failed", failed), ("not checked", unchecked)) if names]
    if told:
        session.error("; ".join(told))


@nox.session
def micro(session: nox.Session) -> None:
    """Optimizer steps, parts of the channel, what it costs at rest, and the system against bare loops (8 minutes)."""
    install(session, "dev")
    session.run("pytest", "benchmarks", "--benchmark-columns=median,iqr,ops,rounds", *session.posargs, **GRACE)
    if not session.posargs:
        session.run("python", "benchmarks/channel.py", **GRACE)
        session.run("python", "-m", "benchmarks.efficiency", "--blocks", "5", "--seconds", "1", **GRACE)
