"""MkDocs hook: pages of the repository outside `docs/` join the site, and links from page to page keep working there.

Comments are left out: those of examples are for the tests.

A page links to other files by their place in the repository, so that links work where the repository is read. Some of these
files are not on the site. Links to them lead to the repository if the environment variable REPOSITORY has its address.
Otherwise they become plain text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
JOIN = ("CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md", "results/README.md")
"""Pages outside `docs/` that become pages of the site."""
PREFIX = "repository/"
"""Where they are on the site."""
FIRST = (("reference/settings.md", 4.0), ("reference/commands.md", 3.0), ("tutorial/", 2.0), ("howto/", 2.0))
"""Pages that a search shows before others, by how their path begins."""

PART = re.compile(
    r"^ {0,3}```.*?^ {0,3}```[^\n]*$"
    r"|(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)"
    r"|(?P<ticks>`+)[^`\n]+(?P=ticks)",
    re.DOTALL | re.MULTILINE,
)
"""A block of code, a link, or code within a line: whichever begins first."""
COMMENT = re.compile(r"^ *<!-- .*? -->\n", re.MULTILINE)
"""On a line of its own."""


def place(uri: str) -> str:
    """Where a page of the site is in the repository."""
    return uri.removeprefix(PREFIX) if uri.startswith(PREFIX) else f"docs/{uri}"


def page_of(path: str) -> str | None:
    """Where a file of the repository is on the site; None where it is no part of it."""
    if path in JOIN:
        return PREFIX + path
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def resolved(target: str, uri: str, on_site: Callable[[str], bool], repository: str) -> str | None:
    """What a link of a page becomes: another target, or None where only its text stays.

    Parameters
    ----------
    uri
        of the page.
    on_site
        whether a file is part of the site.
    """
    path, mark, anchor = target.partition("#")
    if not path or "://" in path or path.startswith(("mailto:", "/")):
        return target
    there = posixpath.normpath(posixpath.join(posixpath.dirname(place(uri)), path))
    page = page_of(there)
    if page is not None and on_site(page):
        return posixpath.relpath(page, posixpath.dirname(uri) or ".") + mark + anchor
    if not (ROOT / there).exists():
        return target  # MkDocs complains of it.
    return f"{repository}/{there}{mark}{anchor}" if repository else None


def rewritten(markdown: str, uri: str, on_site: Callable[[str], bool], repository: str) -> str:
    """A page whose links work on the site; code stays as it is."""

    def one(part: re.Match[str]) -> str:
        if part["target"] is None:
            return part[0]
        target = resolved(part["target"], uri, on_site, repository)
        return part["text"] if target is None else f"{part['image']}[{part['text']}]({target})"

    return PART.sub(one, markdown)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside."""
    from mkdocs.structure.files import File

    for path in JOIN:
        files.append(File.generated(config, PREFIX + path, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links of a page work on the site."""

    def on_site(uri: str) -> bool:
        file: Any = files.get_file_from_path(uri)
        return file is not None and not file.inclusion.is_excluded()

    boost = next((boost for begin, boost in FIRST if page.file.src_uri.startswith(begin)), 1.0)
    page.meta.setdefault("search", {"boost": boost})
    return rewritten(COMMENT.sub("", markdown), page.file.src_uri, on_site, config.extra.get("repository") or "")
