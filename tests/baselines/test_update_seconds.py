"""A workload whose learner waits is for systems that can wait."""

import msgspec
import pytest

from baselines import system
from suites.session import catalogue


@pytest.fixture
def waiting():
    return msgspec.structs.replace(catalogue.load("cartpole-ppo-waiting"), update_seconds=0.02)


@pytest.mark.parametrize("name", ["xingtian", "sb3", "rllib"])
def test_others_refuse_it_with_a_reason(waiting, name):
    assert "wait" in system.get(name).unable(waiting) or "simulator" in system.get(name).unable(waiting)


@pytest.mark.parametrize("name", ["tianji", "tianji-relaxed", "sync"])
def test_ours_hand_it_to_their_learner(waiting, name):
    under_test = system.get(name)
    assert under_test.unable(waiting) is None
    assert under_test.config(system.Task(name, waiting, 0, (0, 1))).update_seconds == 0.02
