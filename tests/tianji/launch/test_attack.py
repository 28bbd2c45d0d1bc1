"""A run under attack by strangers at its sockets: nothing is lost or changed, and their messages are counted."""

import numpy as np
import pytest

from benchmarks.fuzz.live import FIRST, PAIR, Strangers
from benchmarks.fuzz.siege import WAYS, besieged
from tianji.run.training import train


@pytest.mark.long(why="processes are ended and started again")
@pytest.mark.timeout(180)
def test_a_run_under_attack_trains_what_it_would(small):
    config = small(actors=2, encrypt=False, restarts=0, checkpoint_seconds=None, stop_steps=8192)
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


@pytest.mark.long(why="processes are ended and started again")
@pytest.mark.timeout(180)
def test_nobody_without_the_keys_gets_in_at_any_port():
    came = besieged(4.0, 1)
    assert set(came.tried) == set(WAYS)
    assert came.answered == []
    assert (came.lost, came.equal) == (0, True)
    assert came.refused > 0
    assert came.ports >= 3  # The launcher's, an edge's, and one that only a session names.
