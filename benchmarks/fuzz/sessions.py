"""Small sessions that are whole: runs of the committed ones, with few of their events."""

from __future__ import annotations

import functools
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from benchmarks.fuzz.folders import File, Folder
from suites.records import archive, bundle, machine
from suites.records.bundle import Bundle
from suites.records.events import AnyEvent, Episode, NodeUsage, Progress

RESULTS = machine.ROOT / "results" / "reference"
SOURCES: dict[str, tuple[str, tuple[str, ...]]] = {
    "convergence": ("convergence/cartpole-ppo-zoo", ("tianji", "rllib")),
    "staleness": ("staleness/ppo-ablation", ("tianji", "tianji-one-sided")),
    "transmission": ("transmission", ("tianji", "memcpy")),
    "scaling": ("scaling/dqn-five-blocks", ("tianji", "tianji-copies")),
}
"""A committed session of each suite, and some of its systems."""
BLOCKS, NODES = 2, 2
EPISODES, TOLD, OTHERS = 101, 10, 12
"""Events of a kind that are kept of a run: the first ones, but of what grows some of all of it."""


def _thinned(events: list[AnyEvent]) -> list[AnyEvent]:
    kept: list[AnyEvent] = []
    counts: Counter[object] = Counter()
    grown: dict[object, list[AnyEvent]] = {}
    for event in events:
        if isinstance(event, Progress | NodeUsage):
            grown.setdefault(getattr(event, "role", getattr(event, "node", None)), []).append(event)
            continue
        counts[type(event)] += 1
        if counts[type(event)] <= (EPISODES if isinstance(event, Episode) else OTHERS):
            kept.append(event)
    for own in grown.values():
        kept += own[:: max(1, len(own) // TOLD)]
    return kept


@functools.cache
def runs(suite: str) -> tuple[Bundle, ...]:
    """Some runs of a suite."""
    name, systems = SOURCES[suite]
    found = []
    for b in archive.read(RESULTS / f"{name}.parquet"):
        m = b.manifest
        few = m.block < BLOCKS and m.nodes <= NODES and m.system in systems and not m.replica and (m.explorers or 1) == 1
        if few and (suite != "transmission" or m.workload == "samples"):
            found.append(msgspec.structs.replace(b, events=_thinned(b.events)))
    return tuple(found)


@functools.cache
def loose(suite: str) -> Folder:
    """A session as a folder of bundles."""
    folder: Folder = {}
    for b in runs(suite):
        folder[f"{b.path.name}/bundle.json"] = File(msgspec.json.encode(b.manifest))
        folder[f"{b.path.name}/events.jsonl"] = File(b"".join(bundle.encode_event(event) + b"\n" for event in b.events))
    found = [bundle.Equivalence(b.manifest.workload, b.manifest.system, "weights", 1e-7, 1.0, True) for b in runs(suite)]
    certificate = bundle.Certificate("tianji-bench/certificate/1", found, {"sb3": "it is not installed"})
    return folder | {bundle.CERTIFICATE: File(msgspec.json.encode(certificate))}


@functools.cache
def sealed(suite: str) -> bytes:
    """The same in one file."""
    with tempfile.TemporaryDirectory(prefix="tj-fuzz") as place:
        folder = Path(place)
        for name, entry in loose(suite).items():
            assert isinstance(entry, File)
            (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "in" / name).write_bytes(entry.data)
        archive.seal(folder / "in", folder / "one.parquet")
        return (folder / "one.parquet").read_bytes()
