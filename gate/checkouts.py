"""Two revisions of a git repository, each checked out in a folder of its own that is removed again."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from gate.execution import environment, undisturbed
from programs.cli import ConfigError
from suites.statistics.comparison import Side

WORKING_TREE = "."
"""Name of the head that means the working tree as it is."""
LIMIT_S = 600.0
"""Seconds that one call of git may take: a checkout may fetch large files."""
SHALLOW = "; this clone is shallow: run `git fetch --unshallow`, or set fetch-depth: 0 (GitHub) or GIT_DEPTH: 0 (GitLab)"
AUTHOR = "tianji-bench gate"


class Revision(NamedTuple):
    """A revision that is to be checked out."""

    name: str
    """As the user called it."""
    commit: str
    changes: int | None = None
    """Files of the working tree that differ from its commit; None for a commit as it is."""
    shown: str = ""
    """The commit that messages name: for a working tree, the one that it is based on."""

    @property
    def title(self) -> str:
        """What messages call it: `main (1a2b3c4d5e6f)`."""
        short = (self.shown or self.commit)[:12]
        if self.changes is None:
            return f"{self.name} ({short})"
        differ = f"{self.changes} changed file{'s' * (self.changes != 1)}" if self.changes else "no changes"
        return f"working tree ({short}, {differ})"


class Repository:
    """A git repository with a working tree.

    Parameters
    ----------
    folder
        a folder of the working tree; commands run in the same folder of each checkout.

    Raises
    ------
    ConfigError
        where there is no such repository, or no git.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ConfigError(f"--repo {folder}: there is no such folder")
        self.folder = folder
        try:
            top, self.prefix = self.git("rev-parse", "--show-toplevel", "--show-prefix").split("\n")[:2]
        except GitFailed as error:
            raise ConfigError(f"--repo {folder}: is not in the working tree of a git repository: {error}") from error
        self.top = Path(top)

    def git(self, *arguments: str, folder: Path | None = None, more: Mapping[str, str] | None = None) -> str:
        """What git answers, without the end of its last line.

        Raises
        ------
        GitFailed
            with its last words.
        """
        # Hooks of the repository are for its users' own checkouts.
        command = ["git", "-C", str(folder or self.folder), "-c", "core.hooksPath=/dev/null", *arguments]
        try:
            done = subprocess.run(
                command,
                env={**environment(), "GIT_TERMINAL_PROMPT": "0", **(more or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LIMIT_S,
                # Ctrl-C must not cut a checkout short, or its clean-up.
                start_new_session=True,
                check=False,
            )
        except FileNotFoundError:
            raise ConfigError("git is not installed") from None
        except subprocess.TimeoutExpired as error:
            raise GitFailed(f"git {arguments[0]} did not end within {LIMIT_S:g} s") from error
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise GitFailed(lines[0] if lines else f"git {arguments[0]} ended with status {done.returncode}")
        return os.fsdecode(done.stdout).removesuffix("\n")

    def revision(self, option: str, name: str) -> Revision:
        """A revision by name.

        Raises
        ------
        ConfigError
            where the repository does not have it.
        """
        try:
            commit = self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        except GitFailed:
            hint = SHALLOW if self.git("rev-parse", "--is-shallow-repository") == "true" else ""
            raise ConfigError(f"{option} {name}: the repository has no such revision{hint}") from None
        return Revision(name, commit)

    def working_tree(self) -> Revision:
        """The working tree as it is: what git tracks, and new files that it does not ignore.

        It becomes a commit that no branch and no tag knows. Neither the index nor the working tree is touched.

        Raises
        ------
        ConfigError
            where there is no commit yet, or a file cannot be read.
        """
        head = self.revision("--head", "HEAD").commit
        try:
            changed = [line for line in self.git("status", "--porcelain", "-z", "-uall", "--no-renames").split("\0") if line]
            if not changed:
                return Revision(WORKING_TREE, head, 0, head)
            with tempfile.TemporaryDirectory(prefix="tj") as folder:
                # A copy of the index saves git from reading files that have not changed.
                own = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
                own |= {f"GIT_{role}_{what}": AUTHOR for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
                shutil.copyfile(self.git("rev-parse", "--path-format=absolute", "--git-path", "index"), own["GIT_INDEX_FILE"])
                self.git("add", "--all", folder=self.top, more=own)
                tree = self.git("write-tree", more=own)
                commit = self.git("commit-tree", "-p", head, "-m", "working tree", tree, more=own)
        except (GitFailed, OSError) as error:
            raise ConfigError(f"--head {WORKING_TREE}: {error}") from error
        return Revision(WORKING_TREE, commit, len(changed), head)


class GitFailed(Exception):
    """git refused; the text is its first line."""


@contextmanager
def checked_out(repository: Repository, revisions: Mapping[Side, Revision]) -> Iterator[dict[Side, Path]]:
    """Check revisions out, and remove the checkouts however the block is left.

    The paths are equally long: some programs' speed depends on that.

    Yields
    ------
    by side, the folder of the checkout that the repository's folder corresponds to.

    Raises
    ------
    ConfigError
        where one cannot be checked out, or lacks that folder.
    """
    with ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix="tianji-gate-"))
        stack.callback(_away, root)
        folders: dict[Side, Path] = {}
        for side, revision in revisions.items():
            tree = root / side
            stack.callback(_withdrawn, repository, tree)
            try:
                repository.git("worktree", "add", "--detach", "--quiet", str(tree), revision.commit)
            except GitFailed as error:
                raise ConfigError(f"the {side}, {revision.title}, cannot be checked out: {error}") from error
            folders[side] = tree / repository.prefix
            if not folders[side].is_dir():
                raise ConfigError(f"the {side}, {revision.title}, has no folder {repository.prefix}")
        yield folders


def _withdrawn(repository: Repository, tree: Path) -> None:
    """Remove a checkout and git's note of it."""
    # Twice `--force`: also one whose making was cut short.
    remove = ("worktree", "remove", "--force", "--force", str(tree))
    with undisturbed():
        _writable(tree)
        try:
            repository.git(*remove)
        except GitFailed:
            # What is half made git only forgets once its folder is gone.
            shutil.rmtree(tree, onerror=_ignored)
            with suppress(GitFailed):
                repository.git(*remove)


def _away(root: Path) -> None:
    with undisturbed():
        _writable(root)
        shutil.rmtree(root, onerror=_ignored)


def _writable(root: Path) -> None:
    """Let folders be emptied that a build left read-only."""
    for folder, _, _ in os.walk(root):
        if not os.access(folder, os.W_OK | os.X_OK):
            Path(folder).chmod(stat.S_IRWXU)


def _ignored(function: Callable[..., Any], path: str, error: Any) -> None:
    """A file that cannot be removed is left: the verdict is worth more."""
