"""What a report says in words: templates hold the words, the program hands them the few values that they need.

A template of sentences (`templates/SUITE.j2`) is macros that speak of `v`. Its lines may break anywhere: each paragraph becomes
one line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2

from programs.characters import visible
from reports import escaping, tables
from reports.pairs import REFERENCE

TEXT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=jinja2.select_autoescape(["html.j2", "xml.j2"]),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEXT.filters.update(
    number=tables.number,
    ends=tables.ends,
    counted=tables.counted,
    interval=tables.with_interval,
    pieces=tables.pieces,
    pipes=tables.pipe_table,
    latex=escaping.latex,
    markdown=escaping.markdown,
)
TEXT.globals["reference"] = REFERENCE
LATEX = TEXT.overlay(variable_start_string="<<", variable_end_string=">>")
"""Of LaTeX, which is full of braces."""


def render(template: str, **values: Any) -> str:
    """A whole template, as it stands; what could not be seen in it stands by its number."""
    environment = LATEX if template.endswith(".tex.j2") else TEXT
    return visible(environment.get_template(template).render(values))


class Words:
    """What the macros of a template say of something, which they call `v`."""

    def __init__(self, template: str, of: Any) -> None:
        self._macros = TEXT.get_template(template).make_module({"v": of})

    def lines(self, macro: str, *arguments: Any) -> list[str]:
        """Its paragraphs, each as one line; those that are empty are left out."""
        text = str(getattr(self._macros, macro)(*arguments))
        return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]

    def say(self, macro: str, *arguments: Any) -> str:
        return " ".join(self.lines(macro, *arguments))
