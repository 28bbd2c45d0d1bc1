"""The pages of a report as text, and the files that they refer to."""

import re
from html.parser import HTMLParser


def read(out):
    """Every page of a report, one after the other."""
    return "".join(file.read_text() for file in sorted(out.rglob("*.html")))


class _Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("href", "src", "srcset")]


def broken(out):
    """Links of all pages that lead to no file or id below the report, as (page, link)."""
    out = out.resolve()
    ids = {file: set(re.findall(r'\bid="([^"]+)"', file.read_text())) for file in sorted(out.rglob("*.html"))}
    lost = []
    for page in ids:
        links = _Links()
        links.feed(page.read_text())
        for link in links.found:
            name, _, part = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            inside = target.is_relative_to(out) and target.is_file()
            if not inside or (part and part not in ids[target]):
                lost.append((page.name, link))
    return lost


def twice(out):
    """Ids that stand twice on one page."""
    found = {file: re.findall(r'\bid="([^"]+)"', file.read_text()) for file in out.rglob("*.html")}
    return [(file.name, one) for file, ids in found.items() for one in set(ids) if ids.count(one) > 1]
