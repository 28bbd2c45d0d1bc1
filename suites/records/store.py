"""Reads a folder of sessions: bundles and sealed sessions, under current names, with superseded ones apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from suites.records import archive, bundle, limits, statement
from suites.records.bundle import Bundle, BundleError, Certificate
from suites.records.limits import Room
from suites.records.notes import Renamed, Series, Superseded, note, series, superseded
from suites.records.statement import Statement


class Loaded(NamedTuple):
    """Everything under some folders."""

    bundles: list[Bundle]
    superseded: list[tuple[Bundle, Superseded]]
    """Runs that are in no figure, because the session that took their place is here, too."""
    certificates: list[Certificate]
    stated: dict[str, Statement]
    """By session, the plan that was stated before it began."""
    series: tuple[Series, ...] = ()
    """Of the sessions' workloads."""


def load(roots: Sequence[Path]) -> Loaded:
    """Read every bundle and every sealed session under these folders; a root may be a sealed session's file, too.

    Raises
    ------
    BundleError
        for a root without any, and for the first one that is damaged.
    """
    for root in roots:
        if not root.exists():
            raise BundleError(f"{root}: no such folder; give one that `python -m suites run --out` wrote, or a sealed session")
        if not (sealed([root]) or bundle.find([root])):
            raise BundleError(
                f"{root}: holds no bundle; give a folder that `python -m suites run --out` wrote, or a sealed session"
            )
    files = sealed(roots)
    names = {file: about.renamed for file in files if (about := note(file)) is not None}
    room = Room(limits.ALL_VALUES)
    found = [_named(b, names.get(file, {})) for file in files for b in archive.read(file, room)]
    found += [bundle.read(path, room) for path in bundle.find([*roots])]
    old = superseded(files)
    folders = {path.parent for path in bundle.find([*roots])}
    plans = [*map(archive.stated, files), *map(statement.in_folder, sorted(folders))]
    stated = {one.session: one for one in plans if one is not None}
    loaded = Loaded([], [], bundle.certificates([*roots]), stated, series(files))
    for b in sorted(found, key=_place):
        reason = old.get(b.path.parent)
        if reason is not None and reason.covers(b.manifest):
            loaded.superseded.append((b, reason))
        else:
            loaded.bundles.append(b)
    in_use = {b.path.parent for b in loaded.bundles}
    for file in (file for file in files if file in in_use):
        loaded.certificates.extend(_certified(one, names.get(file, {})) for one in archive.certificates(file))
    return loaded


def _certified(certificate: Certificate, names: Mapping[str, Renamed]) -> Certificate:
    """A certificate under the names that systems have today."""
    today = {old: new.id for old, new in names.items()}
    return msgspec.structs.replace(
        certificate,
        findings=[msgspec.structs.replace(one, system=today.get(one.system, one.system)) for one in certificate.findings],
        failures={today.get(system, system): why for system, why in certificate.failures.items()},
    )


def _named(b: Bundle, names: Mapping[str, Renamed]) -> Bundle:
    """A run under the name that its system has today."""
    new = names.get(b.manifest.system)
    if new is None:
        return b
    return msgspec.structs.replace(b, manifest=msgspec.structs.replace(b.manifest, system=new.id, system_title=new.title))


def _place(b: Bundle) -> tuple[Path, str]:
    """Place of a bundle among others, the same whether it is sealed or not."""
    parent = b.path.parent
    return parent.with_name(parent.name.removesuffix(archive.SUFFIX)), b.path.name


def _sealed_name(name: str) -> bool:
    return name.endswith(archive.SUFFIX)


def sealed(roots: Iterable[Path]) -> list[Path]:
    """Sealed sessions at or below these places, sorted; Parquet files of another kind are none."""
    found: set[Path] = set()
    for root in roots:
        # Whoever names a file may name a link to it.
        found |= (
            {root.resolve() if root.is_symlink() else root}
            if root.is_file()
            else {file for file in limits.found(root, _sealed_name) if archive.is_sealed(file)}
        )
    return sorted(found)
