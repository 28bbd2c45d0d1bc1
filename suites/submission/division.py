"""Whether a session's division is what it says: closed or open, vanilla or tuned.

*Closed* means the project's own workload, unchanged, and no deviation of a system beyond those that its adapter states.
*Vanilla* means that a system has the settings that its adapter makes of the workload. Everything else is open, or tuned.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from baselines import system as systems
from baselines.system import System, Task
from baselines.workload import Workload
from programs.cli import ConfigError
from suites.asynchrony import sweep as asynchrony
from suites.asynchrony.run import workloads_of
from suites.disciplines import sweep as disciplines
from suites.records.bundle import Manifest
from suites.scaling import sweep as scaling
from suites.scaling.analysis import COPIES
from suites.session import catalogue
from suites.submission.session import Session, Verdict, some
from suites.transmission import sweep as transmission
from suites.transmission.pipe import PIPES
from suites.transmission.traffic import Extent, Traffic
from tianji.settings import convert

OURS = ("baselines.", "suites.", "tianji.")
"""Where the classes of the project's own systems and pipes are."""
TRAINED = ("convergence", "staleness")
"""Suites that give a system the workload as its file has it."""


def check(session: Session, verdict: Verdict, *, earlier: bool) -> None:
    """Check what is stated of division, workloads, deviations and settings.

    Parameters
    ----------
    earlier
        whether deviations and settings of an earlier revision's adapters are notes and no errors.
    """
    manifests = session.manifests
    divisions = {(m.division, m.tuned) for m in manifests}
    if len(divisions) > 1:
        verdict.wrong("its runs are of several divisions; a session has one, and is vanilla or tuned")
        return
    ((division, tuned),) = divisions
    if division == "closed":
        for line in dict.fromkeys(line for m in manifests for line in of_workload(m)):
            verdict.wrong(line)
        _deviations_of_certificate(session, verdict)
    if earlier:
        verdict.note("deviations and settings are of an earlier revision's adapters, and are not compared with today's")
    else:
        _adapters(manifests, verdict, closed=division == "closed", tuned=tuned)


def of_workload(m: Manifest) -> Iterator[str]:
    """Why the workload of a run is not the project's own."""
    name = f"workload {m.workload} of suite {m.suite}"
    compare = _COMPARE.get(m.suite)
    if compare is None:
        yield f"suite {m.suite} is another package's, so its division is open: add --division open"
        return
    try:
        fields = compare(m)
    except (ConfigError, msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
        why = str(error).partition("; known")[0]
        yield f"{name} is not one of the project's, so its division is open ({why}): add --division open"
        return
    if fields:
        yield f"{name} differs from the project's in {some(sorted(fields))}, so its division is open: add --division open"


def digest(value: Any) -> str:
    """SHA-256 over a workload as JSON, its keys in order."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _differences(found: Any, own: Any) -> list[str]:
    """Fields in which two structs of a kind differ: none where their digests are equal."""
    if digest(found) == digest(own):
        return []
    one, other = msgspec.to_builtins(found), msgspec.to_builtins(own)
    return [name for name in {*one, *other} if one.get(name) != other.get(name)]


def _of_training(m: Manifest) -> list[str]:
    return _differences(sealed_workload(m), _own(m.workload))


def _of_disciplines(m: Manifest) -> list[str]:
    seconds, own = disciplines.PROFILES[m.profile].seconds, _own(m.workload)
    # Without seconds of their own, runs keep their workload's budget.
    return _differences(sealed_workload(m), own if seconds is None else msgspec.structs.replace(own, budget_seconds=seconds))


def _of_asynchrony(m: Manifest) -> list[str]:
    cell = asynchrony.plain(m.workload)
    own = workloads_of(asynchrony.PROFILES[m.profile], (cell,))
    return _differences(sealed_workload(m), own[m.workload])


def _of_scaling(m: Manifest) -> list[str]:
    experiment = scaling.EXPERIMENTS[m.workload]
    own = experiment.scaled(_own(experiment.workload), 1 if m.system.endswith(COPIES) else m.nodes)
    regime = m.configuration.get("regime", {})
    emulated = m.testbed == "netns"
    limits = {"cores": experiment.cores, "link_bits_per_s": experiment.link_bits_per_s}
    wrong = [name for name, value in limits.items() if regime.get(name) != (value if emulated else None)]
    return _differences(sealed_workload(m), own) + wrong


def _of_transmission(m: Manifest) -> list[str]:
    own = transmission.WORKLOADS[m.workload]
    extent = msgspec.convert(m.configuration["extent"], Extent)
    allowed = [one for profile in transmission.PROFILES.values() for one in profile.extents.get(m.workload, ())]
    wrong = [] if extent in allowed else ["extent"]
    return _differences(msgspec.convert(m.configuration["workload"], Traffic), own) + wrong


_COMPARE: dict[str, Callable[[Manifest], list[str]]] = {
    "convergence": _of_training,
    "staleness": _of_training,
    "disciplines": _of_disciplines,
    "price": _of_training,
    "asynchrony": _of_asynchrony,
    "scaling": _of_scaling,
    "transmission": _of_transmission,
}


@functools.cache
def _own(name: str) -> Workload:
    """The project's workload of this id; a name that comes from a file is never opened as a path."""
    if name not in catalogue.names():
        raise ConfigError(f"there is no {name}")
    return catalogue.load(name)


@functools.cache
def environments() -> frozenset[str]:
    """Environments of the project's workloads. No other one is made or looked up: a name may be a module to import."""
    return frozenset(_own(name).env for name in catalogue.names())


def sealed_workload(m: Manifest) -> Workload:
    """The workload that a run was trained on; settings that came later have their defaults."""
    return convert(m.configuration["workload"], Workload, f"workload {m.workload}")


def _deviations_of_certificate(session: Session, verdict: Verdict) -> None:
    """A system that the certificate finds to compute something else must say so."""
    silent = {m.system for m in session.manifests} - {m.system for m in session.manifests if m.deviations}
    for one in (one for certificate in session.certificates for one in certificate.findings):
        if one.equal is False and one.system in silent:
            verdict.wrong(
                f"{one.system} computes other {one.quantity} on {one.workload}, by the certificate, and states no deviation"
            )


def of_project(m: Manifest) -> bool:
    """Whether a run's system comes with the project."""
    registry: Any = PIPES if m.suite == "transmission" else systems.SYSTEMS
    try:
        return str(registry.get(m.system.removesuffix(COPIES)).__module__).startswith(OURS)
    except (ConfigError, ImportError):
        return False


def _adapters(manifests: list[Manifest], verdict: Verdict, *, closed: bool, tuned: bool) -> None:
    """Compare deviations and settings with what this revision's adapters make of the workload."""
    unchecked: dict[str, str] = {}
    for name in dict.fromkeys(m.system for m in manifests):
        runs = [m for m in manifests if m.system == name]
        if not of_project(runs[0]):
            _outside(name, runs, verdict)
        elif strange := {m.configuration["workload"]["env"] for m in runs if m.suite in TRAINED} - environments():
            unchecked[name] = f"environment {some(sorted(strange))} is not one of the project's workloads"
        elif runs[0].suite in TRAINED:
            try:
                _compare(systems.get(name), runs, verdict, closed=closed, tuned=tuned)
            except (ImportError, ConfigError, AttributeError, KeyError, TypeError, ValueError) as error:
                unchecked[name] = f"{type(error).__name__}: {error}"
        elif runs[0].suite == "scaling":
            unchecked[name] = "its settings depend on the nodes"
    for name, why in unchecked.items():
        verdict.note(f"settings and deviations of {name} were not compared with its adapter's: {why}")


def _compare(system: System, runs: list[Manifest], verdict: Verdict, *, closed: bool, tuned: bool) -> None:
    """Compare one system's runs with its adapter."""
    stated: list[str] = []
    changed: list[str] = []
    for m in runs:
        stop = bool(m.configuration.get("stop_at_goal"))
        task = Task(m.system, sealed_workload(m), m.seed, tuple(range(m.cores)), options=m.options, stop_at_goal=stop)
        stated += [line for line in m.deviations if line not in system.deviations(task)]
        found, own = m.configuration.get("system"), msgspec.to_builtins(system.settings(task))
        told = isinstance(found, dict) and found.keys() & own.keys()
        changed += _changed(found, own) if told or not own else ["all of them"]
    if stated and closed:
        verdict.wrong(f"{system.name} states a deviation that its adapter does not: {stated[0]!r}; its division is open")
    if changed and not tuned:
        fields = some(sorted(set(changed)))
        verdict.wrong(f"{system.name} has other settings than its adapter makes of the workload ({fields}): add --tuned")


def _changed(found: Any, own: Any, place: str = "") -> list[str]:
    """Where two translations differ, in the settings that both have."""
    if isinstance(found, dict) and isinstance(own, dict):
        return [
            line
            for name in found.keys() & own.keys()
            for line in _changed(found[name], own[name], f"{place}.{name}".lstrip("."))
        ]
    # What went through JSON has lists for tuples.
    return [] if msgspec.json.encode(found) == msgspec.json.encode(own) else [place or "all"]


def _outside(name: str, runs: list[Manifest], verdict: Verdict) -> None:
    """A system of another package must say which version ran."""
    settings = [m.configuration.get("system") for m in runs]
    if not all(isinstance(one, dict) and one.get("version") for one in settings):
        verdict.wrong(f"system {name} is another package's, and its settings do not say its `version`")
    told = list(dict.fromkeys(line for m in runs for line in m.deviations))
    verdict.note(f"system {name} is another package's: nobody checked its settings; it states {len(told)} deviations")
    for line in told:
        verdict.note(f"system {name} deviates: {line}")
