"""One process of a run: `python -m baselines.xingtian.process NAME` reads its `Assignment` from standard input."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback

import msgspec
import zmq

from baselines.xingtian import broker
from baselines.xingtian.assignment import Assignment
from baselines.xingtian.explorer import Explorer
from baselines.xingtian.learner import Learner
from baselines.xingtian.mail import open_control
from programs.process import boot, die_with_parent, name_process
from tianji.messages import PROTOCOL, Failed, Hello, encode


def main() -> int:
    """Run what standard input assigns; exit status 1 when it failed (it has told the launcher why)."""
    assignment = msgspec.json.decode(sys.stdin.buffer.read(), type=Assignment)
    assert assignment.parent is not None
    die_with_parent(assignment.parent)
    # Ctrl-C reaches the whole process group; the launcher alone decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return 0 if perform(assignment) else 1


def play(told: bytes) -> bool:
    """`perform` an assignment as it is sent to a process that is there already."""
    return perform(msgspec.json.decode(told, type=Assignment))


def perform(assignment: Assignment) -> bool:
    """Do what it says, to its end; False when that failed (the launcher has been told why)."""
    name_process(f"xt-{assignment.name}")
    hello = Hello(assignment.name, PROTOCOL, os.getpid(), boot(), time.monotonic_ns())
    try:
        match assignment.kind:
            case "learner":
                Learner(assignment).run(hello)
            case "explorer":
                Explorer(assignment).run(hello)
            case "broker":
                broker.run(assignment, hello)
    except Exception as error:  # The launcher must hear of it, whatever it is; the traceback goes to our stderr.
        traceback.print_exc()
        # A context of its own: those of threads that still wait cannot be closed from here.
        with zmq.Context() as context, open_control(context, assignment.control_uri, assignment.run_keys) as control:
            control.send(encode(Failed(assignment.name, f"{type(error).__name__}: {error}")))
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
