"""Two revisions measured in turns: requests, skipped parts, and no process left running."""

import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from suites.components import session as sessions
from suites.components.revision import Revision, RevisionFailed, Worker
from suites.components.session import Session
from suites.records import machine
from suites.statistics import comparison
from suites.statistics.gate import Rule, decide

SCRIPT = """
import json, os, sys
speed, more, dies = float(sys.argv[1]), sys.argv[2].split(","), sys.argv[3]

def part(name, timed=True, configuration=0):
    more = {"unit": "things/s", "better": "higher", "timed": timed, "configuration": {"is": configuration}}
    return {"name": name, "about": name, **more}

parts = [part("fast"), part("learnt", timed=False)]
for one in filter(None, more):
    name, _, configuration = one.partition("=")
    parts.append(part(name, True, configuration))
environment = {"cpu_usable": 2, "cpu_model": "x"}
print(json.dumps({"protocol": 1, "tree": os.getcwd(), "environment": environment, "parts": parts}), flush=True)
asked = 0
for line in sys.stdin:
    question = json.loads(line)
    asked += 1
    if dies and asked > int(dies):
        sys.exit("it broke, alas")
    if "prepare" in question:
        print(json.dumps({"ready": question["prepare"]}), flush=True)
    else:
        value = 7.0 if question["measure"] == "learnt" else 1000.0 / speed + asked % 3
        print(json.dumps({"value": value}), flush=True)
"""


@pytest.fixture
def script(tmp_path):
    file = tmp_path / "worker.py"
    file.write_text(textwrap.dedent(SCRIPT))
    return file


def revision(script, name="the base", speed=1.0, more="", dies=""):
    return Revision(name, sys.executable, script.parent, (str(script), str(speed), more, dies))


def session(script, tmp_path, *, rule=None, parts=None, base=None, head=None):
    folder = tmp_path / "out"
    folder.mkdir()
    said = []
    base = base or revision(script)
    head = head or revision(script, "the head")
    return Session(base, head, folder, rule or Rule(looks=(3, 4)), parts=parts, say=said.append), folder, said


def children():
    """But for the helper that `multiprocessing` keeps, where an earlier test has spawned something."""
    below = psutil.Process().children(recursive=True)
    return [child for child in below if not any("multiprocessing.resource_tracker" in part for part in child.cmdline())]


def test_the_same_is_found_the_same_and_recorded_round_by_round(script, tmp_path):
    going, folder, said = session(script, tmp_path)
    found = going.run()
    assert comparison.read(folder) == found
    assert [one.first for one in found.rounds] == ["base", "head", "base"][: len(found.rounds)]
    assert [one.seed for one in found.rounds] == list(range(len(found.rounds)))
    assert {len(one.pairs["fast"]) for one in found.rounds} == {sessions.TURNS}
    assert {len(one.pairs["learnt"]) for one in found.rounds} == {1}, "what does not depend on time is measured once"
    verdicts, _, over = decide(found.worsenings(), found.better, found.rule)
    assert over
    assert {verdict.kind for verdict in verdicts.values()} == {"equivalent"}
    assert said[-1].endswith("rounds: nothing is worse")
    assert children() == []


def test_what_is_slower_is_found_at_the_first_look(script, tmp_path):
    going, _, said = session(script, tmp_path, head=revision(script, "the head", speed=1.25))
    found = going.run()
    assert len(found.rounds) == 3
    assert said == ["3 rounds: worse: fast"]


def test_parts_that_one_lacks_or_that_do_other_work_are_left_out_by_name(script, tmp_path):
    base, head = revision(script, more="old,same,changed=1"), revision(script, "the head", more="new,same,changed=2")
    going, _, said = session(script, tmp_path, base=base, head=head)
    found = going.run()
    assert [metric.name for metric in found.metrics] == ["fast", "learnt", "same"]
    assert found.left_out == {
        "new": "the base does not have it",
        "changed": "its work is not the same in both: a new series begins",
        "old": "the head does not have it",
    }
    assert "left out: new: the base does not have it" in said


def test_parts_can_be_chosen_and_unknown_ones_are_named(script, tmp_path):
    going, _, _ = session(script, tmp_path, parts=["learnt"])
    assert [metric.name for metric in going.run().metrics] == ["learnt"]
    other = Session(revision(script), revision(script, "the head"), tmp_path, Rule(), parts=["flight"], say=lambda line: None)
    with pytest.raises(RevisionFailed, match="unknown part 'flight'; known: fast, learnt"):
        other.run()
    assert children() == []


def test_a_revision_that_breaks_is_named_with_its_last_words(script, tmp_path):
    going, _, _ = session(script, tmp_path, head=revision(script, "the head", dies="3"))
    with pytest.raises(RevisionFailed, match="the head: it broke, alas"):
        going.run()
    assert children() == []


def test_a_revision_without_such_a_worker_is_named(tmp_path):
    nothing = Revision("the base", sys.executable, tmp_path, ("-m", "suites_of_old.worker"))
    with Worker(nothing) as worker, pytest.raises(RevisionFailed, match=r"the base: .*No module named"):
        worker.hello()
    with pytest.raises(RevisionFailed, match=r"the base: .*No such file"):
        Worker(Revision("the base", str(tmp_path / "python"), tmp_path))
    assert children() == []


@pytest.mark.long(why="parts are measured for a while")
def test_this_revision_against_itself(tmp_path):
    own = Revision("this revision", sys.executable, machine.ROOT)
    folder = tmp_path / "out"
    folder.mkdir()
    found = Session(
        own, own, folder, Rule(size=0.9, looks=(3,)), parts=["channel-shm", "weights-shm"], say=lambda line: None
    ).run()
    assert len(found.rounds) == 3
    assert all(value > 100 for one in found.rounds for pairs in one.pairs.values() for pair in pairs for value in pair)
    assert found.environments["base"]["git_commit"] == found.environments["head"]["git_commit"]
    assert children() == []


def test_a_worker_sees_no_other_revisions_modules(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    variables = Revision("x", sys.executable, Path()).environment()
    assert "PYTHONPATH" not in variables
    assert variables["OMP_NUM_THREADS"] == "1"
