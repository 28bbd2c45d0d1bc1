"""Disciplines for tests of roles."""

from tianji.disciplines.registry import make_discipline
from tianji.disciplines.sizes import Facts

FACTS = {"producers": 2, "slots": 4, "round_chunks": 2, "chunk_samples": 8, "reuse": 4.0, "corrects": True}


def rule(name="relaxed", options=None, **facts):
    """A discipline of two actors with four slots each, where nothing else is said."""
    return make_discipline({"name": name, **(options or {})}, Facts(**{**FACTS, **facts}))
