"""Small git repositories whose benchmark prints what a file of theirs says."""

import json
import os
import subprocess

IDENTITY = {f"GIT_{role}_{what}": "toy" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
COMMAND = ("cat", "metrics")
"""Its benchmark: as cheap as a command can be."""


def git(folder, *arguments):
    """What git says; it has to succeed."""
    environment = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def line(metric="latency", value=1.0, unit="s", better="lower"):
    """A metric as a command prints it."""
    return json.dumps({"metric": metric, "value": value, "unit": unit, "better": better})


def commit(folder, branch, **files):
    """Commit files on a new branch, which is checked out then."""
    git(folder, "checkout", "-q", "-b", branch)
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", branch)


def made(folder, **branches):
    """A repository with these branches, one after another: to what each prints."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for branch, metrics in branches.items():
        commit(folder, branch, metrics=metrics)
    return folder


def worktrees(folder):
    """How many checkouts git knows of, the first one included."""
    return git(folder, "worktree", "list").count("\n") + 1
