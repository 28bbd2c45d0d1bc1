"""A process that plays snapshots: `python -m suites.session.judge PARENT`, a child of `suites.session.evaluator`.

Its standard input is a workload and then orders, a line of JSON each; for each order it answers with the returns, a line. It
ends when there are no more, and with its parent.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from baselines.workload import Workload
from programs.process import die_with_parent, name_process
from tianji.play import Player
from tianji.policy import load_policy


class Order(Struct, frozen=True):
    """Play this policy: one greedy episode from each of `evaluation.episodes` seeds, of which the first is given."""

    file: str
    first_seed: int


def main(parent: int) -> None:
    """Answer orders until there are no more."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent's business: it closes the line, or kills.
    name_process("tj-judge")
    lines, answers = sys.stdin.buffer, sys.stdout.buffer
    workload = msgspec.json.decode(lines.readline(), type=Workload)
    episodes = workload.evaluation.episodes
    player = Player(workload.env, episodes, workload.games, workload.simulator)
    try:
        for line in lines:
            order = msgspec.json.decode(line, type=Order)
            seeds = range(order.first_seed, order.first_seed + episodes)
            returns = player.play(load_policy(Path(order.file)), seeds)
            answers.write(msgspec.json.encode(returns.tolist()) + b"\n")
            answers.flush()
    finally:
        player.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
