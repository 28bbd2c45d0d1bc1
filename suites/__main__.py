"""`python -m suites list|doctor|run|derive`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from baselines import system as systems
from suites import bundle, catalogue, environment, plan, runner
from suites.certify import certify
from suites.cli import DONE, FAILED, ConfigError, OneLineParser
from suites.cli import run as run_command
from suites.convergence import sweep as convergence

SUITES: dict[str, ModuleType] = {convergence.NAME: convergence}


def parser() -> OneLineParser:
    """The command line."""
    top = OneLineParser(prog="tianji-bench", description="Measure distributed reinforcement-learning systems.")
    commands = top.add_subparsers(dest="command", required=True, metavar="list|doctor|run|derive")
    listing = commands.add_parser("list", help="suites, profiles, workloads and systems")
    listing.add_argument("--json", action="store_true")
    commands.add_parser("doctor", help="what this machine is, and what could disturb a measurement")
    run = commands.add_parser("run", help="run suites")
    run.add_argument("suites", nargs="+", metavar="SUITE")
    run.add_argument("--profile", default="smoke", metavar="NAME")
    run.add_argument("--systems", metavar="A,B,...")
    run.add_argument("--workloads", metavar="X,Y,...")
    run.add_argument("--seeds", type=int, metavar="K", help="blocks, each with a seed of its own")
    run.add_argument("--testbed", default="local", metavar="local")
    run.add_argument("--out", type=Path, required=True, metavar="DIR")
    run.add_argument("--resume", action="store_true", help="go on with the session in --out, block by block")
    derive = commands.add_parser("derive", help="copies of bundles for committing: no snapshots, no logs")
    derive.add_argument("bundles", nargs="+", type=Path, metavar="DIR")
    derive.add_argument("--out", type=Path, required=True, metavar="DIR")
    return top


def _one_of(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ConfigError(f"unknown {what} {name!r}; known: {', '.join(known)}")


def make_plan(options: Any) -> plan.Plan:
    """Check every choice before anything is written, and lay the session out."""
    for name in options.suites:
        _one_of("suite", name, sorted(SUITES))
    if len(set(options.suites)) > 1:
        raise ConfigError("one suite a session, each into a folder of its own")
    _one_of("testbed", options.testbed, ["local"])
    suite = SUITES[options.suites[0]]
    _one_of("profile", options.profile, list(suite.PROFILES))
    profile: plan.Profile = suite.PROFILES[options.profile]
    names = tuple(options.systems.split(",")) if options.systems else profile.systems
    if len(set(names)) < len(names):
        raise ConfigError(f"--systems {options.systems}: names a system twice")
    runner.runnable(names)
    chosen = options.workloads.split(",") if options.workloads else profile.workloads
    workloads = [catalogue.load(name) for name in chosen]
    blocks = profile.blocks if options.seeds is None else options.seeds
    if blocks < 1:
        raise ConfigError(f"--seeds {blocks}: at least 1 is needed")
    return plan.lay_out(
        suite.NAME,
        options.profile,
        profile,
        {w.id: msgspec.json.decode(msgspec.json.encode(w)) for w in workloads},
        names,
        blocks,
        tuple(sorted(os.sched_getaffinity(0))),
    )


def run(options: Any) -> int:
    """Run a session; exit status 1 when a cell failed."""
    wanted = make_plan(options)
    begun = runner.open_session(options.out, wanted, options.resume)
    try:
        certify(begun, options.out)
        manifests = runner.run(begun, options.out)
    except KeyboardInterrupt:
        print(f"interrupted; finished blocks are kept: add --resume to go on with {options.out}", file=sys.stderr)
        raise
    failed = [m for m in manifests if m.status != "completed"]
    for m in failed:
        print(
            f"tianji-bench: {m.workload}, block {m.block}, {m.system}: {m.status}: {(m.error or '').splitlines()[-1]}",
            file=sys.stderr,
        )
    return FAILED if failed else DONE


def show_list(options: Any) -> int:
    """Print what there is to run."""
    rows: dict[str, dict[str, Any]] = {
        "suites": {
            name: {"about": s.ABOUT, "profiles": {k: msgspec.to_builtins(p) for k, p in s.PROFILES.items()}}
            for name, s in SUITES.items()
        },
        "workloads": {name: catalogue.load(name).title for name in catalogue.names()},
        "systems": {name: {"title": (s := systems.get(name)).title, "cannot_run": s.available()} for name in systems.names()},
    }
    if options.json:
        print(json.dumps(rows, indent=1))
        return DONE
    for name, suite in rows["suites"].items():
        print(f"suite     {name}: {suite['about']}; profiles {', '.join(suite['profiles'])}")
    for name, title in rows["workloads"].items():
        print(f"workload  {name}: {title}")
    for name, entry in rows["systems"].items():
        cannot = f" (cannot run here: {entry['cannot_run']})" if entry["cannot_run"] else ""
        print(f"system    {name}: {entry['title']}{cannot}")
    return DONE


def doctor() -> int:
    """Print the environment manifest and what in it would disturb a measurement."""
    found = environment.manifest()
    for key, value in found.items():
        print(f"{key}: {value}")
    for name in systems.names():
        reason = systems.get(name).available()
        print(f"system {name}: {reason or 'can run'}")
    if found["load_1min_at_start"] > 0.5 * found["cpu_usable"]:
        print(f"warning: other work loads this machine ({found['load_1min_at_start']} over one minute); results will be noisy")
    if found["cpu_usable"] < 2:
        print("warning: one core; actors and learner will take turns on it")
    return DONE


def derive(options: Any) -> int:
    """Copy bundles without what is too large to commit."""
    try:
        for root in options.bundles:
            for path in root.glob(bundle.CERTIFICATE):
                options.out.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, options.out / bundle.CERTIFICATE)
        made = [bundle.derive(bundle.read(path), options.out) for path in bundle.find(options.bundles)]
    except bundle.BundleError as error:
        raise ConfigError(str(error)) from error
    print(f"{len(made)} bundles in {options.out}")
    return DONE


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    if options.command == "list":
        return show_list(options)
    if options.command == "derive":
        return derive(options)
    return doctor() if options.command == "doctor" else run(options)


def console() -> int:
    """The `tianji-bench` command."""
    return run_command("tianji-bench", main)


if __name__ == "__main__":
    sys.exit(console())
