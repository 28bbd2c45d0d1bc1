"""The comment on a pull request, against a server that answers as GitHub's API does."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from commands import refusal

from gate import post
from programs.cli import run

TEXT = "<!-- tianji-bench gate: gate -->\n### All is well\n"


class Handler(BaseHTTPRequestHandler):
    def _answer(self):
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        self.server.asked.append((self.command, self.path, body, self.headers["Authorization"]))
        status, told = self.server.answers(self.command, self.path)
        data = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = _answer

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.asked, made.answers = [], lambda method, path: (200, [])
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    (tmp_path / "event").write_text(json.dumps({"pull_request": {"number": 7}}))
    (tmp_path / "comment.md").write_text(TEXT)
    monkeypatch.setenv("GITHUB_API_URL", f"http://127.0.0.1:{made.server_port}")
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/name")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event"))
    monkeypatch.setenv("GITHUB_TOKEN", "a-token")
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def call(tmp_path):
    return run("gate.post", post.main, [str(tmp_path / "comment.md")])


def comment(number, login=post.AUTHOR, body=TEXT):
    return {"id": number, "user": {"login": login}, "body": body}


def test_the_first_comment_is_written(server, tmp_path, capsys):
    assert call(tmp_path) == 0
    assert capsys.readouterr().out == "comment written\n"
    (listed, written) = server.asked
    assert listed[:2] == ("GET", "/repos/owner/name/issues/7/comments?per_page=100&page=1")
    assert written == ("POST", "/repos/owner/name/issues/7/comments", {"body": TEXT}, "Bearer a-token")


def test_an_earlier_comment_is_updated_also_on_the_second_page(server, tmp_path, capsys):
    """Comments of another gate, of another user with the same first line, and without a body or a user are not."""
    others = [comment(1, body="<!-- tianji-bench gate: other -->\n"), comment(2, login="somebody"), {"id": 3}]
    pages = {"1": others + [comment(9, body="hello")] * 97, "2": [comment(42, body=f"{TEXT.splitlines()[0]}\r\nold")]}
    server.answers = lambda method, path: (200, pages[path[-1]] if method == "GET" else {})
    assert call(tmp_path) == 0
    assert capsys.readouterr().out == "comment updated\n"
    assert server.asked[-1][:3] == ("PATCH", "/repos/owner/name/issues/comments/42", {"body": TEXT})


def test_a_token_that_may_only_read_is_no_failure(server, tmp_path, capsys):
    server.answers = lambda method, path: (200, []) if method == "GET" else (403, {})
    assert call(tmp_path) == 0
    assert capsys.readouterr().out.startswith("::notice::the comment was not written: POST 7/comments: HTTP status 403")


def test_other_refusals_fail_in_one_line(server, tmp_path, capsys, monkeypatch):
    server.answers = lambda method, path: (500, {})
    assert "HTTP status 500" in refusal(capsys, call, tmp_path)
    monkeypatch.setenv("GITHUB_API_URL", "file:///etc")
    assert "makes no sense" in refusal(capsys, call, tmp_path)
    monkeypatch.delenv("GITHUB_TOKEN")
    assert "GITHUB_TOKEN is not set" in refusal(capsys, call, tmp_path)


def test_without_a_pull_request_or_a_marker_nothing_is_asked(server, tmp_path, capsys):
    (tmp_path / "event").write_text("{}")
    assert call(tmp_path) == 0
    assert "no pull request" in capsys.readouterr().out
    (tmp_path / "comment.md").write_text("hello")
    assert "its first line is no HTML comment" in refusal(capsys, call, tmp_path)
    assert server.asked == []
