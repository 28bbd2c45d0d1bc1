"""CartPole with one fault, for `tianji train --env faulty:Faulty`. It imports nothing of this project.

The fault happens in the second environment of one actor. Variables of the process's environment choose it:

- `FAULT`, its name in `FAULTS`; `FAULT_ACTOR`, the number of the actor;
- `FAULT_AFTER_S`, seconds from the actor's first step until it happens;
- `FAULT_LOG`, a file to which processes append a line at their first step, and at the fault.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv

LONG_S = 600.0
LINE = "x" * 999 + "\n"
AT_START = ("hangs in the constructor", "leaves a thread", "leaves a child", "changes the working directory")
"""Faults of a constructor."""
ELSEWHERE = (*AT_START, "hangs in reset", "hangs in close")
"""Faults that do not happen in a step."""
HARMLESS = AT_START[1:]
"""Those that happen in each process."""


def _raise(text: str = "the simulator fell over") -> NoReturn:
    raise RuntimeError(text)


DEEDS = {
    "raises once": _raise,
    "raises always": _raise,
    "sys.exit": lambda: sys.exit(0),
    "os._exit": lambda: os._exit(0),
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGSEGV": lambda: ctypes.string_at(0),
    "hangs in step": lambda: time.sleep(LONG_S),
    "hangs in reset": lambda: time.sleep(LONG_S),
    "hangs in the constructor": lambda: time.sleep(LONG_S),
    "hangs in close": lambda: time.sleep(LONG_S),
    "leaves a thread": lambda: threading.Thread(target=time.sleep, args=(LONG_S,)).start(),
    "leaves a child": lambda: subprocess.Popen(["sleep", str(LONG_S)]),
    "changes the working directory": lambda: os.chdir("/"),
    "prints a megabyte a second": lambda: sys.stdout.write(LINE),
}
"""What most faults do."""
SPOILT = {
    "NaN": lambda observation: np.full(4, np.nan, np.float32),
    "wrong shape": lambda observation: observation[:3],
    "wrong dtype": lambda observation: observation.astype(complex),
}
"""What others make of an observation."""
FAULTS = (
    "raises once", "raises always", "sys.exit", "os._exit", "SIGKILL", "SIGSEGV", "hangs in step", "hangs in reset",
    "hangs in the constructor", "hangs in close", *SPOILT, "leaves a thread", "leaves a child",
    "changes the working directory", "prints a megabyte a second"
)  # fmt: skip


def actor_of_this_process() -> int | None:
    """Number of the first actor in this process, from the process's name. None: it has none."""
    name = Path("/proc/self/comm").read_text().strip()
    found = re.search(r"\.a(\d+)", name)
    return int(found[1]) if found else 0 if name.startswith("tj-learner") else None


class Faulty(CartPoleEnv):
    """CartPole whose second copy in the chosen actor has the fault."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        number, Faulty.made = Faulty.made, Faulty.made + 1
        self.fault = os.environ.get("FAULT", "")
        self.chosen = number == 1 and actor_of_this_process() == int(os.environ.get("FAULT_ACTOR", "-1"))
        self.due_at: float | None = None
        """When the fault happens; known at the first step."""
        self.happened = False
        if self.chosen and self.fault in AT_START and (self.fault in HARMLESS or not self._is_a_successor()):
            self._happens()

    def step(self, action: Any) -> Any:
        result = super().step(action)
        return self._spoilt(result) if self.chosen else result

    def reset(self, **options: Any) -> Any:
        if self.chosen and self.fault == "hangs in reset" and self._is_due():
            self._happens()
        return super().reset(**options)

    def close(self) -> None:
        if self.chosen and self.fault == "hangs in close":
            self._happens()

    def _spoilt(self, result: Any) -> Any:
        if self.due_at is None:
            self._begin()
        if self.fault in ELSEWHERE or not self._is_due():
            return result
        observation = self._happens(result[0])
        return observation, *result[1:]

    def _begin(self) -> None:
        """Note the first step of this process. A successor has the fault only if it happens always."""
        again = self.fault in ("raises always", "prints a megabyte a second")
        wait_s = (0.0 if again else math.inf) if self._is_a_successor() else float(os.environ["FAULT_AFTER_S"])
        self.due_at = time.monotonic() + wait_s
        self._log("first step")

    def _is_due(self) -> bool:
        return self.due_at is not None and time.monotonic() >= self.due_at

    def _is_a_successor(self) -> bool:
        """Whether the fault has happened in an earlier process."""
        log = Path(os.environ["FAULT_LOG"])
        return log.exists() and any(
            json.loads(line)["what"] == "fault" and json.loads(line)["pid"] != os.getpid() for line in log.open()
        )

    def _happens(self, observation: Any = None) -> Any:
        """Do what the fault does, and return the observation that the learner sees."""
        if not self.happened:
            self._log("fault")
        self.happened = True
        # The next line is due a millisecond later, and other faults only once in a process.
        self.due_at = time.monotonic() + 0.001 if self.fault.startswith("prints") else math.inf
        if self.fault in SPOILT:
            return SPOILT[self.fault](observation)
        DEEDS[self.fault]()
        return observation

    def _log(self, what: str) -> None:
        line = {"what": what, "pid": os.getpid(), "actor": actor_of_this_process(), "at_s": time.monotonic()}
        with Path(os.environ["FAULT_LOG"]).open("a") as file:
            file.write(json.dumps(line) + "\n")
