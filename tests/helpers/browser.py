"""A real browser without a screen: Chromium over a pipe, by the DevTools protocol. No port is opened."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psutil

BINARIES = ("chromium", "chromium-browser", "google-chrome")
LIMIT_S = 60.0
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    # What its processes share goes to its own temporary directory: one that is ended between making a segment and
    # unlinking it would leave that in /dev/shm.
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
    "--remote-debugging-pipe",
)


def found():
    """The browser's command, or None."""
    return next((path for name in BINARIES if (path := shutil.which(name))), None)


class Browser:
    """One page in one browser; a context manager that ends it."""

    def __init__(self, binary: str, profile: Path):
        to_browser, from_us = os.pipe()
        from_browser, to_us = os.pipe()

        def arrange():
            # The browser reads 3 and writes 4; moved out of the way first, or one would overwrite the other.
            reads, writes = os.dup(to_browser), os.dup(to_us)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        # Its own, for it tidies nothing when it is ended; not under `profile`, for a socket's path has 107 characters.
        self._temporary = tempfile.TemporaryDirectory(prefix="browser", ignore_cleanup_errors=True)
        command = [binary, *QUIET, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            command,
            preexec_fn=arrange,
            pass_fds=(3, 4),
            env={**os.environ, "TMPDIR": self._temporary.name},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(to_us)
        self._out, self._in = from_us, from_browser
        self._numbers, self._text = itertools.count(1), b""
        self.events: list[dict] = []
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters):
        """Ask the browser, and wait for its answer; what else it says meanwhile is kept in `events`."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_S
        while True:
            came = self._next(deadline)
            if came.get("id") == number:
                assert "error" not in came, came
                return came["result"]

    def _next(self, deadline: float):
        while b"\0" not in self._text:
            assert select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))[0], "the browser is silent"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser ended"
            self._text += part
        line, _, self._text = self._text.partition(b"\0")
        came = json.loads(line)
        if "method" in came:
            self.events.append(came)
        return came

    def open(self, page: Path):
        """Open a file and wait until it has been loaded."""
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + LIMIT_S
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next(deadline)

    def run(self, script: str):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, script: str):
        """Wait until this is so in the page."""
        look = f"const look = () => ({script}) ? done() : setTimeout(look, 20); look();"
        self.call("Runtime.evaluate", expression=f"new Promise(done => {{ {look} }})", awaitPromise=True)

    def complaints(self):
        """Errors and warnings that the console has shown."""
        found = [e["params"]["exceptionDetails"]["text"] for e in self.events if e["method"] == "Runtime.exceptionThrown"]
        found += [e["params"]["entry"]["text"] for e in self.events if e["method"] == "Log.entryAdded"]
        return found + [str(e["params"]["args"]) for e in self.events if e["method"] == "Runtime.consoleAPICalled"]

    def requests(self):
        """Addresses that the page has asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def picture(self, file: Path):
        """What a reader sees."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        family = psutil.Process(self._process.pid).children(recursive=True)
        self._process.terminate()
        self._process.wait(LIMIT_S)
        _, left = psutil.wait_procs(family, 10)
        for process in left:
            process.kill()
        psutil.wait_procs(left, 10)
        self._temporary.cleanup()
        os.close(self._out)
        os.close(self._in)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
