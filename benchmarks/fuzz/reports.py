"""The same folders, of which a whole report is built and a paper's figures are drawn."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

from benchmarks.fuzz import Verdict, Wrong, bundles, folders
from benchmarks.fuzz.bundles import ESCAPED
from programs.characters import UNSEEN
from programs.cli import run
from reports import charts
from reports.__main__ import main

LIMIT_S = 60.0
mutate: Callable[[random.Random], bytes] = bundles.mutate
LINKS = ("href", "src", "srcset", "action", "xlink:href")
SCRIPTS = 2
"""Number of scripts on every page; a page with diagrams has three more."""
TAGS = {"style": None, "img": None, "iframe": 0, "object": 0, "link": 0, "base": 0, "form": 0, "foreignobject": 0}
"""Number of each tag on a page. A tag with 0 can only come from unescaped text; None: any number."""


def check(case: bytes) -> Verdict:
    """Build it, and look at everything that was written."""
    with tempfile.TemporaryDirectory(prefix="tj-fuzz") as place:
        # Below, for names that lead upwards.
        base = Path(place, "a", "b", "c")
        source, out = base / "in", base / "out"
        source.mkdir(parents=True)
        folders.lay_out(folders.unpack(case), source)
        before = _listed(Path(place))
        verdict = _run(["build", str(source), "--out", str(out)])
        written = {path for path in _listed(Path(place)) - before if not path.startswith(str(out))}
        written |= {str(path) for path in ESCAPED.parent.glob(f"{ESCAPED.name}*")}
        if written:
            raise Wrong(f"written elsewhere: {sorted(written)}")
        if verdict == "refused":
            if out.exists():
                raise Wrong("refused, and something was written")
        else:
            for file in out.rglob("*"):
                _look_at(file, out)
        return verdict


def _run(arguments: list[str]) -> Verdict:
    said, complaint = StringIO(), StringIO()
    with redirect_stdout(said), redirect_stderr(complaint):
        status = run("tianji-report", main, arguments)
    if status == 2:
        if complaint.getvalue().count("\n") != 1 or re.search(f"[{UNSEEN}]", complaint.getvalue()[:-1]):
            raise Wrong(f"refused with {complaint.getvalue()[:300]!r}")
        return "refused"
    if status != 0 or re.search(f"(?!\n)[{UNSEEN}]", said.getvalue()):
        raise Wrong(f"exit status {status}, and {said.getvalue()[:300]!r}")
    return "accepted"


def _listed(place: Path) -> set[str]:
    return {str(Path(folder, name)) for folder, names, files in os.walk(place) for name in (*names, *files)}


class _Page(HTMLParser):
    """Counts tags, and looks for what runs or fetches."""

    def __init__(self, file: Path, out: Path) -> None:
        super().__init__()
        self._file, self._out = file, out
        self.tags: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            if name.startswith("on") or (
                name in ("href", "src", "srcset", "action", "xlink:href") and not self._own(value or "")
            ):
                raise Wrong(f"the page has <{tag} {name}={value!r}>")

    def _own(self, link: str) -> bool:
        """Whether a link leads to a file of the report, or to a place on the same page."""
        place, _, _ = link.partition("#")
        there = (self._file.parent / place).resolve()
        return re.fullmatch(r"[\w./-]*", place) is not None and there.is_relative_to(self._out.resolve()) and there.exists()


def _look_at(file: Path, out: Path) -> None:
    """Read a file of a report as others would."""
    if file.is_dir():
        return
    if file.name != charts.LIBRARY and not re.fullmatch(r"[a-z0-9-]+\.[a-z]+", file.name):
        raise Wrong(f"a file is called {file.name!r}")
    text = file.read_bytes().decode()
    match file.suffix:
        case ".json":
            json.loads(text, parse_constant=_no_number)
        case ".svg":
            ElementTree.fromstring(text)
        case ".html":
            page = _Page(file, out)
            page.feed(text)
            # The filters of the summary are a form.
            scripts = SCRIPTS + 3 * ('class="chart"' in text) + ('id="costs"' in text)
            known = TAGS | {"script": scripts, "form": None if file.name == "index.html" else 0}
            if wrong := {tag: n for tag, n in page.tags.items() if known.get(tag) not in (None, n)}:
                raise Wrong(f"the page has tags of its own: {wrong}")
        case ".csv":
            cells = [cell for line in csv.reader(StringIO(text)) for cell in line]
            if formulas := [cell for cell in cells if re.match(r"[=+@\t\r]|-[^\d.]|-.*[a-wyz(!|]", cell)]:
                raise Wrong(f"{file.name} has a formula: {formulas[0]!r}")
        case ".js":
            if file.name != charts.LIBRARY and ("<" in text or not text.isascii()):
                raise Wrong(f"{file.name} has markup of its own")
        case ".tex":
            if re.search(r"\\(input|write|include)\b", text):
                raise Wrong(f"{file.name} has a command of its own")
        case ".md":
            if re.search(r"(?<!\\)<script|\]\(", text):
                raise Wrong(f"{file.name} has markup of its own")


def _no_number(constant: str) -> None:
    raise Wrong(f"summary.json has {constant}")
