"""A run under attack by strangers at its sockets: nothing is lost or changed, and their messages are counted."""

import numpy as np
import pytest

from benchmarks.fuzz.live import FIRST, PAIR, Strangers
from tianji.run.training import train


@pytest.mark.long(why="processes are ended and started again")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("encrypt", [False, True])
def test_a_run_under_attack_trains_what_it_would(small, encrypt):
    config = small(actors=2, encrypt=encrypt, restarts=0, checkpoint_seconds=None, stop_steps=8192)
    strangers = Strangers()
    try:
        result = train(config, strangers, cluster=PAIR)
    finally:
        strangers.stop()
    assert strangers.said
    assert min(strangers.said.values()) >= FIRST
    learner = next(report.counters for report in result.reports if report.role == "learner g0")
    assert result.steps == learner["steps"] == 8192
    assert learner["chunks_lost"] == learner["chunks_duplicated"] == 0
    assert np.array_equal(result.weights, train(small(actors=2, stop_steps=8192)).weights)
