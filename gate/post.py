"""Writes a comment on a GitHub pull request, or updates the one that an earlier run wrote: `python -m gate.post FILE`.

It reads what GitHub Actions tells every step: `GITHUB_API_URL`, `GITHUB_REPOSITORY`, `GITHUB_EVENT_PATH`, and the token in
`GITHUB_TOKEN`. The file's first line is how an earlier comment is found again. Standard library and `programs` only.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from programs.cli import DONE, ConfigError, OneLineParser, run

AUTHOR = "github-actions[bot]"
"""Whose comments are updated: the user that a workflow's token belongs to."""
LIMIT_S = 30.0
PAGE, MOST_PAGES = 100, 50
MARKER = re.compile(r"<!-- .+ -->")
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


class Refused(Exception):
    """The API answered with an error; `status` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class PullRequest:
    """The comments of a pull request.

    Parameters
    ----------
    api
        address of the API, such as the one in `GITHUB_API_URL`.
    repository
        `owner/name`.
    """

    def __init__(self, api: str, repository: str, number: int, token: str) -> None:
        self._root, self._number, self._token = f"{api.rstrip('/')}/repos/{repository}/issues", number, token

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 (the scheme is checked in `main`)
            f"{self._root}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Accept": "application/vnd.github+json",
                "Content-Type": "application/json",
                "User-Agent": "tianji-bench-gate",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, f"{method} {path}: HTTP status {error.code} {error.reason}") from None
        except (OSError, ValueError) as error:
            raise Refused(0, f"{method} {path}: {error}") from None

    def comments(self) -> Iterator[dict[str, Any]]:
        """All comments, oldest first."""
        for page in range(1, MOST_PAGES + 1):
            found = self._ask("GET", f"{self._number}/comments?per_page={PAGE}&page={page}")
            yield from found
            if len(found) < PAGE:
                return

    def write(self, text: str, author: str) -> str:
        """Write the comment, or update the earlier one; says which.

        Raises
        ------
        Refused
            when the API does not let it.
        """
        first = text.partition("\n")[0]
        for comment in self.comments():
            written = (comment.get("body") or "").partition("\n")[0].rstrip("\r")
            if written == first and (comment.get("user") or {}).get("login") == author:
                self._ask("PATCH", f"comments/{int(comment['id'])}", {"body": text})
                return "updated"
        self._ask("POST", f"{self._number}/comments", {"body": text})
        return "written"


def main(arguments: Sequence[str]) -> int:
    """Write or update the comment."""
    parser = OneLineParser(prog="python -m gate.post", description="Write or update a comment on a GitHub pull request.")
    parser.add_argument("file", type=Path, metavar="FILE", help="the comment; its first line is an HTML comment")
    parser.add_argument("--author", default=AUTHOR, help="user whose earlier comment is updated (%(default)s)")
    options = parser.parse_args(arguments)
    told = {name: os.environ.get(f"GITHUB_{name}", "") for name in ("API_URL", "REPOSITORY", "EVENT_PATH", "TOKEN")}
    for name, value in told.items():
        if not value:
            raise ConfigError(f"GITHUB_{name} is not set: this command is for a step of a GitHub workflow")
    if not told["API_URL"].startswith(("https://", "http://")) or not REPOSITORY.fullmatch(told["REPOSITORY"]):
        raise ConfigError("GITHUB_API_URL or GITHUB_REPOSITORY makes no sense")
    try:
        text = options.file.read_text(encoding="utf-8")
        event = json.loads(Path(told["EVENT_PATH"]).read_text(encoding="utf-8"))
        number = int((event.get("pull_request") or {}).get("number") or 0)
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(str(error)) from error
    if not MARKER.fullmatch(text.partition("\n")[0]):
        raise ConfigError(f"{options.file}: its first line is no HTML comment")
    if not number:
        print("no pull request: nothing is commented on")
        return DONE
    try:
        what = PullRequest(told["API_URL"], told["REPOSITORY"], number, told["TOKEN"]).write(text, options.author)
    except Refused as error:
        if error.status not in (401, 403, 404):
            raise ConfigError(str(error)) from error
        # Pull requests from forks have a token that may only read.
        print(f"::notice::the comment was not written: {error}")
        return DONE
    print(f"comment {what}")
    return DONE


if __name__ == "__main__":
    sys.exit(run("gate.post", main))
