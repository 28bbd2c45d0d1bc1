"""Made-up bundles for reading tests, and folders with committed ones."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import msgspec

from suites.records import archive, bundle, store
from suites.records.bundle import Manifest
from suites.records.events import Episode, Evaluation, FirstStep, Snapshot, Usage

WORKLOAD = {
    "title": "A pole, hardly balanced",
    "env": "Pole",
    "algo": "ppo",
    "environments": 4,
    "budget_steps": 100,
    "ppo": {"rollout_steps": 2, "minibatch_size": 4, "epochs": 1},
    "thresholds": {"training": 20.0, "evaluated": 20.0},
    "evaluation": {"episodes": 1, "averaged": 1},
}
ENVIRONMENT = {"cpu_usable": 2, "cpu_model": "Abacus"}


def manifest(**more):
    fields = {
        "schema": bundle.SCHEMA,
        "status": "completed",
        "suite": "convergence",
        "profile": "smoke",
        "workload": "w-x",
        "system": "sync",
        "system_title": "Sync",
        "seed": 0,
        "replica": 0,
        "block": 0,
        "position": 0,
        "session": "s",
        "cores": 2,
        "configuration": {"workload": WORKLOAD},
        "deviations": [],
        "environment": ENVIRONMENT,
        "phases_s": {},
    }
    return Manifest(**(fields | more))


EVENTS = [FirstStep(5), Episode(6, 9.0, 9, 9), Snapshot(7, 0, 0, "f"), Usage(8, 0.5, 10), Evaluation(9, 0, 0, "curve", [1.0])]


def make(folder, name="cell", events=EVENTS, **more):
    partial = folder / f"{name}.partial"
    partial.mkdir(parents=True)
    (partial / "events.jsonl").write_bytes(b"".join(bundle.encode_event(e) + b"\n" for e in events))
    return bundle.publish(partial, manifest(**more))


@functools.cache
def unpacked(name):
    """Folders of a committed sealed session, or of a folder of them, as they were before they were sealed."""
    place = Path(tempfile.mkdtemp(prefix="tj-unpacked"))
    atexit.register(shutil.rmtree, place)
    source = Path(__file__).parents[2] / name
    for file in store.sealed([source]):
        parent = place if file == source else place / file.relative_to(source).with_suffix("")
        for b in archive.read(file):
            folder = parent / b.path.name
            folder.mkdir(parents=True)
            (folder / "bundle.json").write_bytes(msgspec.json.encode(b.manifest))
            (folder / "events.jsonl").write_bytes(b"".join(bundle.encode_event(event) + b"\n" for event in b.events))
        for certificate in archive.certificates(file):
            bundle.write_certificate(certificate, parent)
    return place
