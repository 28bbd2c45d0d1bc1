"""Untrusted run folders: a resume is refused in one line or could start, and code that a folder names is not imported."""

from __future__ import annotations

import json
import random
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.fuzz import Verdict, Wrong, changes, folders
from programs.cli import ConfigError
from tianji.__main__ import parser
from tianji.commands.settings import settings
from tianji.config import TrainConfig
from tianji.environments.making import describe
from tianji.run.training import check_state, train
from tianji.run_folder import RunFolder

LIMIT_S = 5.0
FILES = ("config.json", "progress.json", "state/learner-g0.safetensors")


@cache
def whole() -> dict[str, bytes]:
    """The files of a run that ended."""
    with tempfile.TemporaryDirectory(prefix="tj-fuzz") as folder:
        path = Path(folder) / "run"
        train(TrainConfig(env="CartPole-v1", world="lockstep", stop_steps=1024), out=path)
        return {name: (path / name).read_bytes() for name in FILES}


def mutate(rng: random.Random) -> bytes:
    """A run's folder with one of its files changed."""
    files, name = dict(whole()), rng.choice(FILES)
    if name.endswith(".json") and rng.random() < 0.8:
        files[name] = json.dumps(changes.of_json(rng, json.loads(files[name]))).encode()
    else:
        files[name] = changes.of_bytes(rng, files[name])
    return folders.pack({path: folders.File(data) for path, data in files.items()})


def check(case: bytes) -> Verdict:
    """Read it as `train --resume` does, up to where roles would be started."""
    with tempfile.TemporaryDirectory(prefix="tj-fuzz") as place:
        root, before = Path(place), set(sys.modules)
        folders.lay_out(folders.unpack(case), root)
        folder = RunFolder(root)
        try:
            config = settings(parser().parse_args(["train", "--resume", str(root)]))
            if config.env != "CartPole-v1":
                # Another environment of Gymnasium's is not tried: its own code is not what is looked at.
                return "refused"
            check_state(folder, config, describe(config.env))
            tally = folder.read_tally()
        except ConfigError as error:
            if "\n" in str(error):
                raise Wrong(f"more than a line: {error}") from None
            return "refused"
        finally:
            if imported := {"os:system", "module"} & (set(sys.modules) - before):
                raise Wrong(f"imported {imported}")
    if not np.isfinite([tally.seconds, *tally.returns]).all():
        raise Wrong("what it counts on from is no number")
    return "accepted"
