"""Characters that shown text must not contain, because they end a line, move the cursor or change the text direction."""

from __future__ import annotations

import re

UNSEEN = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
"""Inside brackets of a regular expression: control characters, ends of lines, changes of direction, no characters."""
LONGEST = 2000
"""Characters of a complaint."""

_UNSEEN = re.compile(f"[{UNSEEN}]")
_UNSEEN_IN_LINES = re.compile(f"(?![\n\t])[{UNSEEN}]")


def _named(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}" if ord(found[0]) > 0xFF else f"\\x{ord(found[0]):02x}"


def visible(text: str) -> str:
    """Text of several lines in which everything can be seen: other control characters stand as `\\x1b`."""
    return _UNSEEN_IN_LINES.sub(_named, text)


def one_line(text: str) -> str:
    """The same of a single line, which is cut off where it is too long."""
    line = _UNSEEN.sub(_named, " ".join(text.split()))
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."
