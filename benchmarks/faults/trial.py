"""One run with one fault: starts `tianji train`, follows it, interrupts it, and says what happened.

A process makes one trial at a time, because it adopts the orphans of its run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
from msgspec import Struct

from benchmarks.faults import faulty
from programs.process import adopting_orphans

ALGORITHMS = {
    "strict PPO": ("--algo", "ppo"),
    "relaxed PPO": ("--algo", "ppo", "--set", "discipline=relaxed", "--set", "chunk_slots=8"),
    "DQN": ("--algo", "dqn", "--set", "dqn.epsilon_steps=10000", "--set", "dqn.train_every_steps=64", "--set", "dqn.updates=8"),
}
SETTINGS = ("actors=2", "envs_per_actor=4", "checkpoint_seconds=2", "horizon_steps=1000000000")
AFTER_S = 5.0
"""Seconds from the actor's first step to the fault, so that something was stored before."""
SILENCE_S = 5.0
"""`silence_seconds` of runs whose environment hangs."""
LIMIT_S = 10.0
"""Seconds from the cause in which a run has to go on or to end."""
PATIENCE_S = 40.0
"""Seconds from the fault after which a run that neither goes on nor ends is interrupted."""
START_S = 60.0
INTERRUPT_S = 6.0
"""Seconds in which an interrupted run has to end."""


class Trial(Struct, frozen=True):
    """What became of one run."""

    fault: str
    actor: int
    algorithm: str
    outcome: str
    """`went on`, `ended` or `neither`."""
    seconds: float | None
    """From the cause until the environment stepped again or the run ended. Of a hang, the cause is the end of the limit."""
    lost_s: float | None
    """Seconds of training that were lost; None: not known."""
    restarts: int
    """Processes that were started again; all roles together count once."""
    line: str
    """The last line on standard error of a run that ended by itself."""
    interrupt_s: float | None
    """Seconds from Ctrl-C to the end of a run that went on; None: it had ended."""
    stored: bool | None
    """Whether it stored its state after Ctrl-C."""
    interrupt_in_hang_s: float | None = None
    """Seconds from Ctrl-C to the end, 2 s after the environment began to hang."""
    left: int = 0
    """Processes that were left behind."""


class Run:
    """A run of `tianji train`.

    Parameters
    ----------
    tree
        checkout whose `tianji` is run.
    folder
        empty folder for the run's files.
    """

    def __init__(self, tree: Path, folder: Path, fault: str, actor: int, algorithm: str) -> None:
        self.folder, self.log = folder, folder / "log"
        own = {"FAULT": fault, "FAULT_ACTOR": str(actor), "FAULT_AFTER_S": str(AFTER_S), "FAULT_LOG": str(self.log)}
        self._actor = actor
        settings = [*SETTINGS, *([f"silence_seconds={SILENCE_S}"] if fault.startswith("hangs") else [])]
        command = [sys.executable, "-m", "tianji", "train", "--env", "faulty:Faulty", "--quiet", *ALGORITHMS[algorithm]]
        command += ["--stop-steps", "1000000000", "--out", str(folder / "run")]
        command += [word for one in settings for word in ("--set", one)]
        places = os.pathsep.join((str(tree), str(Path(faulty.__file__).parent)))
        environment = {**os.environ, **own, "PYTHONPATH": places}
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A script in the background ignores SIGINT, and would pass that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.saves: list[float] = []
        """Times at which a state was stored."""
        self._seen = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.startswith(b"xxxx"):
                self.lines.append(line.decode(errors="replace").strip())

    def look(self) -> bool:
        """Note whether a state was stored since the last call. True while the run goes on."""
        path = self.folder / "run" / "state" / "learner-g0.safetensors"
        try:
            changed = path.stat().st_mtime_ns
        except FileNotFoundError:
            changed = 0
        if changed != self._seen:
            self._seen = changed
            self.saves.append(time.monotonic())
        return self.process.poll() is None

    def events(self, what: str) -> list[Mapping[str, Any]]:
        """What the chosen actor's processes have noted, oldest first."""
        if not self.log.exists():
            return []
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [event for event in found if event["what"] == what and event["actor"] == self._actor]

    def interrupt(self) -> tuple[float, bool]:
        """Press Ctrl-C. Seconds until the run has ended, and whether it stored its state."""
        at, before = time.monotonic(), len(self.saves)
        self.process.send_signal(signal.SIGINT)
        while self.look():
            if time.monotonic() > at + PATIENCE_S:
                self.process.kill()
                self.process.wait()
            time.sleep(0.01)
        self.look()
        return time.monotonic() - at, len(self.saves) > before and (self.folder / "run" / "result.json").exists()

    def close(self) -> int:
        """Make sure that nothing is left, and return how many processes were."""
        self.process.kill()
        self.process.wait()
        left = [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
        for child in left:
            child.kill()
        psutil.wait_procs(psutil.Process().children(), timeout=5.0)
        self._reader.join(5.0)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return len(left)


@contextmanager
def _running(tree: Path, fault: str, actor: int, algorithm: str) -> Iterator[Run]:
    with tempfile.TemporaryDirectory(prefix="tianji-fault-") as folder, adopting_orphans():
        run = Run(tree, Path(folder), fault, actor, algorithm)
        try:
            yield run
        finally:
            run.close()


def _until_fault(run: Run, fault: str) -> float | None:
    """Wait for the fault, and return its time. None: the run ended first."""
    deadline = time.monotonic() + START_S
    while run.look() and time.monotonic() < deadline:
        if events := run.events("fault"):
            return float(events[0]["at_s"])
        if fault == "hangs in close" and (begun := run.events("first step")) and begun[0]["at_s"] + AFTER_S < time.monotonic():
            return time.monotonic()
        time.sleep(0.02)
    return float(events[0]["at_s"]) if (events := run.events("fault")) else None


def _goes_on(run: Run, fault: str, at: float) -> float | None:
    """Time at which the actor stepped again; None: not yet."""
    again = [event["at_s"] for event in run.events("first step") if event["at_s"] > at]
    if fault in faulty.HARMLESS or fault.startswith("prints"):
        return max([at, *again])
    return again[-1] if again else None


def try_once(tree: Path, fault: str, actor: int, algorithm: str) -> Trial:
    """Make one run, or two if the environment hangs, and say what happened."""
    with _running(tree, fault, actor, algorithm) as run:
        trial = _follow(run, fault, actor, algorithm)
        left = run.close()
    in_hang = _interrupted_in_hang(tree, fault, actor, algorithm) if fault.startswith("hangs") else None
    return msgspec.structs.replace(trial, left=left, interrupt_in_hang_s=in_hang)


def _follow(run: Run, fault: str, actor: int, algorithm: str) -> Trial:
    at = _until_fault(run, fault)
    made = (fault, actor, algorithm)
    if fault == "hangs in close" and at is not None:
        took, stored = run.interrupt()
        return Trial(*made, "ended", took, 0.0 if stored else None, 0, _last(run), took, stored)
    if at is None:
        return Trial(*made, "neither", None, None, 0, _last(run), None, None)
    stored_before = max([save for save in run.saves if save <= at], default=None)
    cause = at + SILENCE_S if fault.startswith("hangs") else at
    goes_on_at, seen = None, len(run.saves)
    while run.look() and time.monotonic() < at + PATIENCE_S:
        if goes_on_at is None:
            goes_on_at, seen = _goes_on(run, fault, at), len(run.saves)
        elif len(run.saves) >= seen + 2 and fault != "raises always":
            break
        time.sleep(0.02)
    if run.process.poll() is not None:
        seconds = time.monotonic() - cause
        # Before its environments are there, a run has made no step.
        lost = 0.0 if fault == "hangs in the constructor" else None if stored_before is None else at - stored_before
        return Trial(*made, "ended", seconds, lost, _restarts(run), _last(run), None, None)
    took, stored = run.interrupt()
    if goes_on_at is None or len(run.saves) < seen + 2:
        return Trial(*made, "neither", None, None, _restarts(run), _last(run), took, stored)
    all_roles = any("all roles" in line for line in _results(run))
    lost = None if all_roles and stored_before is None else at - stored_before if all_roles else 0.0
    return Trial(*made, "went on", max(0.0, goes_on_at - cause), lost, _restarts(run), "", took, stored)


def _interrupted_in_hang(tree: Path, fault: str, actor: int, algorithm: str) -> float | None:
    """Seconds from Ctrl-C to the end of a run whose environment has hung for 2 s; None: it did not come to that."""
    with _running(tree, fault, actor, algorithm) as run:
        at = _until_fault(run, fault)
        if fault == "hangs in close" or at is None:
            return None
        while run.look() and time.monotonic() < at + 2.0:
            time.sleep(0.02)
        return run.interrupt()[0] if run.process.poll() is None else None


def _results(run: Run) -> list[str]:
    path = run.folder / "run" / "result.json"
    return [one["role"] for one in json.loads(path.read_text())["restarts"]] if path.exists() else []


def _restarts(run: Run) -> int:
    """Restarts of a run that wrote its result, or processes of the actor that made a step, less the first."""
    return len(_results(run)) or max(0, len(run.events("first step")) - 1)


def _last(run: Run) -> str:
    lines = [line for line in run.lines if line]
    text = lines[-1] if lines else ""
    return text.replace(str(run.folder), "FOLDER")
