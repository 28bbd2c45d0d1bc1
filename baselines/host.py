"""The process in which one run of one system takes place: `python -m baselines.host DIRECTORY PARENT [STARTED]`.

The runner's keeper starts it with a `task.json` in the directory. It keeps to the cores that the task names, dies with
its parent, and leaves `events.jsonl` and `snapshots/`. Exit status 0: the run was measured; 1: it failed, and the last
line of its output says why. The descriptor STARTED, if there is one, is closed when the first environment step is made.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path

import msgspec

from baselines import system
from baselines.recorder import FileRecorder
from tianji.cli import DONE, FAILED, INTERRUPTED
from tianji.launch.process import die_with_parent, name_process


def main(directory: Path, parent: int, started: int | None = None) -> int:
    """Run the task of a directory."""
    die_with_parent(parent)
    # The runner decides what an interrupt means; we hear of it by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    task = msgspec.json.decode((directory / "task.json").read_bytes(), type=system.Task)
    os.sched_setaffinity(0, task.cores)
    name_process(f"tj-host {task.system}")
    under_test = system.get(task.system)
    with FileRecorder(directory, task.workload, None if started is None else lambda: os.close(started)) as recorder:
        try:
            recorder.phase("setup")
            under_test.prepare(task, recorder)
            recorder.phase("train")
            under_test.train(task, recorder)
            return DONE
        except KeyboardInterrupt:
            return INTERRUPTED
        except Exception as error:  # Any failure of the system under test is this run's result.
            traceback.print_exc()
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return FAILED
        finally:
            recorder.phase("teardown")
            under_test.stop()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
