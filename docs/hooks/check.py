"""Checks a built site: `python docs/hooks/check.py FOLDER`. Exit status 1, and a line for each fault.

Scripts, styles, pictures and fonts have to be files of the site, so that a browser asks no other host for anything. Every link
within the site has to lead to a file that is there, and to an anchor that is on it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ASSETS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "object": "data"}
LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "manifest"}
"""Kinds of `<link>` that a browser follows by itself."""
OUTSIDE = re.compile(r"""(?:@import\s+|url\(\s*)["']?((?:https?:)?//[^"')\s]+)""")


class Addresses(HTMLParser):
    """Addresses of one page: what it loads, what it links to, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self._style = tag == "style"
        if ASSETS.get(tag, "") in given:
            self.loads.append(given[ASSETS[tag]])
        if tag == "link" and LINKS & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.loads += OUTSIDE.findall(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self._style:
            self.loads += OUTSIDE.findall(data)
        self._style = False


@cache
def read(page: Path) -> Addresses:
    """The addresses of a page."""
    found = Addresses()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def faults(site: Path) -> Iterator[str]:
    """What is wrong, a line each."""
    for sheet in sorted(site.rglob("*.css")):
        for address in OUTSIDE.findall(sheet.read_text(encoding="utf-8")):
            yield f"{sheet.relative_to(site)}: loads {address} from another host"
    for page in sorted(site.rglob("*.html")):
        name = page.relative_to(site)
        for address in read(page).loads:
            if urlsplit(address).netloc:
                yield f"{name}: loads {address} from another host"
            elif not address.startswith("data:") and not target(site, page, address).is_file():
                yield f"{name}: loads {address}, which is not there"
        for address in read(page).links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            there = target(site, page, address)
            if not there.is_file():
                yield f"{name}: links to {address}, which is not there"
            elif parts.fragment and there.suffix == ".html" and unquote(parts.fragment) not in read(there).anchors:
                yield f"{name}: links to {address}, and there is no such anchor"


def target(site: Path, page: Path, address: str) -> Path:
    """The file that an address of a page means."""
    path = unquote(urlsplit(address).path)
    there = page if not path else (site / path.lstrip("/") if path.startswith("/") else page.parent / path)
    return there / "index.html" if there.is_dir() else there


def main() -> int:
    """Check, and print."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("usage: python docs/hooks/check.py FOLDER (of a built site)", file=sys.stderr)
        return 2
    found = list(faults(Path(sys.argv[1]).resolve()))
    print("\n".join(found) or "every asset is local, every link and anchor is there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
