"""Sessions that are in the history alone, for what the notebook says of them."""

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from suites.records import notes

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@functools.cache
def place():
    """A folder for them, which goes when the tests end."""
    folder = Path(tempfile.mkdtemp(prefix="tj-past"))
    atexit.register(shutil.rmtree, folder)
    return folder


@functools.cache
def kept(name, commit):
    """A file of `results` as a commit has it; whoever has no history skips the test."""
    asked = subprocess.run(["git", "-C", str(ROOT), "show", f"{commit}:results/{name}"], capture_output=True, check=False)
    if asked.returncode != 0:
        pytest.skip(f"results/{name} is in the history, and this copy has none")
    file = place() / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(asked.stdout)
    return file


def session(name):
    """A sealed session that `sessions.toml` says is in the history."""
    return kept(name, notes.notes(RESULTS / notes.FILE)[name].commit)


def file(name):
    """Another file that lay beside the sessions when they were taken away."""
    return kept(name, next(one.commit for one in notes.notes(RESULTS / notes.FILE).values() if one.commit))
