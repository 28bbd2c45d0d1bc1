"""Spaces of settings for the open division, and tasks with settings from them."""

import msgspec
import pytest
from small_runs import DQN, PPO

from baselines import system
from baselines.space import of_workload
from baselines.system import Task
from suites.session import catalogue

ZOO = catalogue.load("cartpole-ppo-zoo")
SYSTEMS = (
    "tianji",
    "sync",
    "sb3",
    "sbx",
    "rllib",
    "rllib-old",
    "rllib-appo",
    "sample-factory",
    "torchrl",
    "xingtian",
)


def space(name, workload=ZOO, cores=(0, 1)):
    return system.get(name).space(Task(name, workload, 0, cores))


def test_what_every_system_can_vary_is_the_workloads():
    found = of_workload(ZOO)
    assert found.choices["ppo.learning_rate"] == (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3)
    assert found.choices["environments"] == (8, 16, 32)
    assert found.choices["ppo.rollout_steps"] == (32, 64, 128)
    assert found.first == ({"ppo.learning_rate": 1e-3, "environments": 8, "ppo.rollout_steps": 32},)
    assert found.size == len(list(found.settings())) == 45
    # Sixteen rounds must fit into the budget, and environments step together into whole rounds of updates.
    short = msgspec.structs.replace(ZOO, budget_steps=16_384)
    assert of_workload(short).choices["environments"] == (8, 16)
    assert of_workload(PPO).choices["environments"] == (8,)
    assert of_workload(DQN).choices == {
        "dqn.learning_rate": of_workload(DQN).choices["dqn.learning_rate"],
        "environments": (4, 8, 16),
    }


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("workload", ["cartpole-ppo-zoo", "cartpole-dqn-quick"])
def test_every_setting_makes_a_task(name, workload):
    under_test, task = system.get(name), Task(name, catalogue.load(workload), 0, (0, 1))
    if under_test.unable(task.workload):
        pytest.skip("it cannot train on this workload")
    found = under_test.space(task)
    assert found.size >= 12, "as many trials as are allowed"
    closed = found.first[0]
    of_closed = msgspec.to_builtins(under_test.settings(under_test.tuned(task, closed)))
    assert of_closed == msgspec.to_builtins(under_test.settings(task)), "closed settings are first"
    told = []
    for options in found.settings():
        assert found.outside(options) is None
        tuned = under_test.tuned(task, options)
        assert all(under_test.takes(option) for option in tuned.options)
        told.append(str(under_test.settings(tuned)))
    assert len(set(told)) == found.size, "each choice reaches the system"


def test_what_the_makers_advise_is_tried():
    first = space("sb3", cores=(0, 1, 2)).first
    assert [(one["vectoriser"], one["torch_threads"]) for one in first] == [("dummy", 1), ("dummy", 3), ("subproc", 1)]
    assert [one["env_runners"] for one in space("rllib").first] == [0, 2, 1]
    assert [one["env_runners"] for one in space("rllib", catalogue.load("cartpole-dqn-quick")).first] == [0, 1, 2]
    assert [one["torch_threads"] for one in space("rllib-old").first] == [1, 2]
    assert [one["workers"] for one in space("sample-factory").first] == [2, 1]
    chosen = [(one["collectors"], one["torch_threads"]) for one in space("torchrl").first]
    assert chosen == [(1, 1), (2, 1), (1, 2)], "one collector beside the learner, one for each core, and torch on all cores"
    chosen = [(one["discipline"], one["ppo.clip_gradients"]) for one in space("tianji").first]
    assert chosen == [("strict", "together"), ("relaxed", "together"), ("strict", "each")]
    assert "ppo.clip_gradients" not in space("tianji", catalogue.load("cartpole-dqn-quick")).choices


def test_actors_that_sample_ahead_have_slots_to_do_so():
    under_test, task = system.get("tianji"), Task("tianji", ZOO, 0, (0, 1))
    strict, relaxed = (under_test.config(under_test.tuned(task, one)) for one in space("tianji").first[:2])
    assert relaxed.chunk_slots > strict.chunk_slots
    assert relaxed == msgspec.structs.replace(system.get("tianji-relaxed").config(task))


def test_what_is_outside_is_told_in_words():
    found = of_workload(ZOO)
    good = found.first[0]
    assert found.outside(good) is None
    assert "environments is 9, which is none of 8, 16, 32" in found.outside(good | {"environments": 9})
    assert "colour is unknown" in found.outside(good | {"colour": "red"})
    assert "environments is missing" in found.outside({k: v for k, v in good.items() if k != "environments"})
