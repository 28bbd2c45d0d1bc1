"""Checkouts: two, side by side, of the right commits, and gone afterwards whatever happened in them."""

import pytest
from toy_repositories import git, made, worktrees

from gate import checkouts
from gate.checkouts import Repository, Revision, checked_out
from programs.cli import ConfigError


@pytest.fixture
def toy(tmp_path):
    return made(tmp_path / "toy", one="1", two="2")


def both(repository):
    return {"base": repository.revision("--base", "one"), "head": repository.revision("--head", "two")}


def test_both_are_there_in_paths_of_equal_length_and_then_gone(toy):
    repository = Repository(toy)
    with checked_out(repository, both(repository)) as folders:
        assert [(folder / "metrics").read_text() for folder in folders.values()] == ["1", "2"]
        assert len(str(folders["base"])) == len(str(folders["head"]))
        root = folders["base"].parent
        assert worktrees(toy) == 3
    assert not root.exists()
    assert worktrees(toy) == 1
    assert git(toy, "branch", "--show-current") == "two"


def test_they_go_whatever_was_made_of_them(toy):
    repository = Repository(toy)

    def spoil():
        with checked_out(repository, both(repository)) as folders:
            places.extend(folders.values())
            locked = folders["base"] / "cache"
            locked.mkdir()
            (locked / "file").write_text("x")
            locked.chmod(0o500)
            (folders["head"] / ".git").unlink()
            raise KeyboardInterrupt

    places = []
    with pytest.raises(KeyboardInterrupt):
        spoil()
    assert not places[0].parent.exists()
    assert worktrees(toy) == 1


def test_other_checkouts_of_the_user_are_left_alone(toy, tmp_path):
    git(toy, "worktree", "add", "-q", "--detach", str(tmp_path / "own"), "one")
    (tmp_path / "own").rename(tmp_path / "on-a-drive-that-is-away")
    repository = Repository(toy)
    with checked_out(repository, both(repository)):
        pass
    assert worktrees(toy) == 2


def test_hooks_of_the_repository_do_not_run(toy, tmp_path):
    hook = toy / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path / 'ran'}'\n")
    hook.chmod(0o755)
    repository = Repository(toy)
    with checked_out(repository, both(repository)):
        pass
    assert not (tmp_path / "ran").exists()


def test_a_working_tree_becomes_a_commit_that_no_branch_knows(toy):
    (toy / "metrics").unlink()
    (toy / "added").write_text("new")
    found = Repository(toy).working_tree()
    head = git(toy, "rev-parse", "HEAD")
    assert (found.changes, found.shown) == (2, head)
    assert git(toy, "ls-tree", "--name-only", found.commit) == "added"
    assert git(toy, "branch", "--contains", found.commit) == ""
    assert git(toy, "status", "--porcelain") == "D metrics\n?? added", "the index is as it was"
    git(toy, "stash", "-q", "-u")
    assert Repository(toy).working_tree() == Revision(".", head, 0, head)


def test_titles():
    assert Revision("main", "a" * 40).title == "main (aaaaaaaaaaaa)"
    assert Revision(".", "a" * 40, 1, "b" * 40).title == "working tree (bbbbbbbbbbbb, 1 changed file)"
    assert Revision(".", "a" * 40, 0, "a" * 40).title == "working tree (aaaaaaaaaaaa, no changes)"


def test_a_repository_without_commits_and_one_without_working_tree_are_refused(tmp_path, monkeypatch):
    empty, bare = tmp_path / "empty", tmp_path / "bare"
    for folder, more in ((empty, []), (bare, ["--bare"])):
        folder.mkdir()
        git(folder, "init", "-q", *more)
    with pytest.raises(ConfigError, match="--head HEAD: the repository has no such revision"):
        Repository(empty).working_tree()
    with pytest.raises(ConfigError, match="is not in the working tree of a git repository"):
        Repository(bare)
    monkeypatch.setattr(checkouts.subprocess, "run", lambda *_, **__: (_ for _ in ()).throw(FileNotFoundError()))
    with pytest.raises(ConfigError, match="git is not installed"):
        Repository(empty)
