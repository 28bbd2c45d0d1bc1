"""Parts of the system, alone: what they measure is work that was done."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from suites.components.parts import PARTS, described

TIMED = [name for name, part in PARTS.items() if part.timed]


@pytest.mark.parametrize("name", TIMED)
def test_a_part_works_and_says_how_fast(name):
    part = PARTS[name].prepare(seed=3)
    try:
        first = part.work()
        assert first > 0
        assert part.measure(0.01) > 0
        assert part.work() == first, "pieces of work are alike"
    finally:
        part.close()


def test_an_actor_and_a_learner_do_what_their_workload_says():
    sampling, updates = (PARTS[name].prepare(0) for name in ("sampling", "updates-ppo"))
    assert sampling.work() == 8 * 32
    assert updates.work() == 20, "epochs of one minibatch"
    before = updates.work.__self__.algorithm.updater.weights().copy()
    updates.work()
    assert np.abs(updates.work.__self__.algorithm.updater.weights() - before).max() < 1e-9, "nothing is learnt"
    sampling.close()
    updates.close()


@pytest.mark.parametrize("name", ["returns-ppo", "returns-dqn"])
def test_returns_are_the_same_to_the_last_bit_and_follow_the_seed(name):
    part = dataclasses.replace(PARTS[name], settings=PARTS[name].settings | {"steps": 2048})

    def returns(seed):
        return part.prepare(seed).measure(0.0)

    first = returns(1)
    assert returns(1) == first
    assert returns(2) != first
    assert 9 < first < 500


def test_what_is_told_of_parts_is_plain_and_complete():
    told = json.loads(json.dumps(list(described())))
    assert [part["name"] for part in told] == list(PARTS)
    assert {part["better"] for part in told} == {"higher"}
    assert all(part["configuration"] and part["about"] and part["unit"] for part in told)


def ask(*questions):
    done = subprocess.run(
        [sys.executable, "-m", "suites.components.worker", str(os.getpid())],
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_a_worker_answers_line_by_line_and_ends_with_its_input():
    status, answers, _ = ask(
        {"prepare": "weights-shm", "seed": 0}, {"measure": "weights-shm", "seconds": 0.01}, {"close": "weights-shm"}
    )
    assert status == 0
    assert answers[0]["protocol"] == 1
    assert answers[1] == {"ready": "weights-shm"}
    assert answers[2]["value"] > 0
    assert answers[3] == {"closed": "weights-shm"}


def test_a_worker_says_what_it_cannot_do():
    status, answers, _ = ask({"prepare": "flight", "seed": 0})
    assert status == 1
    assert answers[-1] == {"error": "KeyError: 'flight'"}
