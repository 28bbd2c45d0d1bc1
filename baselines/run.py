"""Host process of one run of one system: `python -m baselines.run DIRECTORY PARENT [STARTED]`.

The runner's keeper starts it with a `task.json` in the directory. It runs on the cores that the task names, dies with its
parent, and writes `events.jsonl` and `snapshots/`. Exit status 0 means measured. Exit status 1 means failed, and the last line
of its output says why. It closes the descriptor STARTED at the first environment step.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from baselines import system
from baselines.recorder import FileRecorder
from programs.process import serve_a_runner, status_of


def main(directory: Path, parent: int, started: int | None = None) -> int:
    """Run the task of a directory."""
    task = msgspec.json.decode((directory / "task.json").read_bytes(), type=system.Task)
    serve_a_runner(parent, task.cores, f"tj-host {task.system}")
    under_test = system.get(task.system)
    on_first_step = None if started is None else lambda: os.close(started)
    with FileRecorder(directory, task.workload, on_first_step, stop_at_goal=task.stop_at_goal) as recorder:

        def work() -> None:
            recorder.phase("setup")
            under_test.prepare(task, recorder)
            recorder.phase("train")
            under_test.train(task, recorder)

        try:
            return status_of(work)
        finally:
            recorder.phase("teardown")
            under_test.stop()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
