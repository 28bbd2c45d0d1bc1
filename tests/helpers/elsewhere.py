"""Commands run in a folder of the user's, as their own processes: with this checkout, wherever they stand."""

import os
import subprocess
import sys
from pathlib import Path

import tianji

ROOT = Path(tianji.__file__).parents[1]


def run_in(folder, *arguments):
    """What `python ARGUMENTS` says there; it has to succeed."""
    there = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=there, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout
