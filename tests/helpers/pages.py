"""Examples on documentation pages: the blocks of a page, and running them as its reader would.

A block is fenced as `sh`, `python` or `toml`. One with a `title="NAME"` is saved as that file. Comments say what is special:

=================================  =============================================================
`<!-- example: skipped, WHY -->`   The block is parsed, but not run.
`<!-- example: prints REGEX -->`   It has to print this.
`<!-- example: fails, REGEX -->`   It has to end with status 2 and say this.
`<!-- example: installs -->`       It is `pip install -e .`. Its entry points are put on the path.
`<!-- examples: after PAGE -->`    The page begins in the folder that another page has left.
=================================  =============================================================
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path

import baselines.__main__
import reports.__main__
import suites.__main__
import tianji.__main__
from programs import cli

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?:^[ ]*<!-- example: (?P<note>[^>]*?) -->\n)?"
    r"^(?P<indent>[ ]*)```(?P<kind>[a-z]+)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n(?P<text>.*?)^[ ]*```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
AFTER = re.compile(r"^<!-- examples: after (?P<page>\S+) -->$", re.MULTILINE)
LIMIT_S = 60


@dataclass(frozen=True)
class Block:
    """One fenced block; `note` and `about` are the words of its comment."""

    line: int
    kind: str
    text: str
    title: str | None = None
    note: str = ""
    about: str = ""


def blocks(text):
    """The blocks of a page, in order."""
    found = []
    for match in BLOCK.finditer(text):
        note, _, about = (match["note"] or "").partition(" ")
        body = textwrap.dedent(match["text"])
        line = text.count("\n", 0, match.start("kind")) + 1
        found.append(Block(line, match["kind"], body, match["title"], note.rstrip(","), about))
    return found


def before(page):
    """The page whose folder this one begins in, or None."""
    found = AFTER.search(page.read_text())
    return (page.parent / found["page"]).resolve() if found else None


def run_block(block, folder):
    """Do what a reader does with a block, and check what comes of it."""
    if block.title is not None:
        (folder / block.title).write_text(block.text)
    elif block.note == "installs":
        install(folder)
    elif block.note != "skipped" and block.kind in ("sh", "python"):
        status, said = 0, ""
        for part in parts(block):
            status, more = run_here(part, folder) or run_there(block.kind, part, folder)
            said += more
            if status:
                break
        where = f"line {block.line}: {block.text}\n{said}"
        assert status == (2 if block.note == "fails" else 0), where
        if block.note in ("prints", "fails"):
            assert re.search(block.about, said), where


def parts(block):
    """A block's commands one by one, where all of them are of the project; else the block as a whole."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return lines if block.kind == "sh" and all(line.startswith("python -m ") for line in lines) else [block.text]


def run_here(text, folder):
    """Exit status and output of a command that starts no role: in this process, which has imported what that takes."""
    program = re.fullmatch(r"python -m (tianji|suites|reports|baselines) ([^\n;|&]*)", text)
    if program is None or (program[2].startswith("train") and not re.search("--world lockstep|--dry-run", text)):
        return None
    main = {"tianji": tianji, "suites": suites, "reports": reports, "baselines": baselines}[program[1]].__main__.main
    said, before_it = io.StringIO(), set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = cli.run(program[1], main, shlex.split(program[2]))
    except SystemExit as exit_:
        status = exit_.code
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before_it:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
    return status, said.getvalue()


def run_there(kind, text, folder):
    """Exit status and output of a block in processes of its own."""
    command = ["bash", "-euo", "pipefail", "-c", text] if kind == "sh" else [sys.executable, "-c", text]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    there = {**os.environ, "PATH": path, "PYTHONPATH": f"{ROOT}:{folder}", "MPLBACKEND": "agg"}
    kept = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, cwd=folder, env=there, timeout=LIMIT_S, check=False, **kept)
    return done.returncode, done.stdout


def install(folder):
    """What `pip install -e .` does for entry points, without touching this environment."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    metadata = folder / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
