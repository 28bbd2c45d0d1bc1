"""Systems that are a program of their own: what it writes is passed on, and what is wrong with it ends the run in a line."""

import shutil
import sys
import time

import msgspec
import psutil
import pytest
from small_runs import LONG, PPO

from baselines import program, recording
from baselines.program import Program, ProgramFailed
from baselines.recorder import FileRecorder
from baselines.system import Task
from suites.records import bundle

HEAD = """
import json, os, signal, sys, time
from pathlib import Path
from recording import Recording
task = json.loads(Path("task.json").read_text())
now = time.monotonic_ns
def snapshot(r, steps, name=None):
    (r.snapshots / f"{steps:09d}.bin").write_text("policy")
    r.snapshot_file(now(), steps, steps // 128, name or f"snapshots/{steps:09d}.bin")
"""
HONEST = """
with Recording(".") as r:
    snapshot(r, 0)
    r.first_step(now())
    for steps in range(512, task["workload"]["budget_steps"] + 512, 512):
        r.episode(now(), 9.0, 9, steps)
        r.progress(now(), "driver", {"samples_produced": steps})
        snapshot(r, steps)
"""
UNTIL_ASKED = """
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
with Recording(".") as r:
    snapshot(r, 0)
    r.first_step(now())
    r.flush()
    steps = 0
    while not asked:
        time.sleep(0.01)
        steps += {rate}
        r.episode(now(), 9.0, 9, steps)
        r.flush()
    snapshot(r, steps)
"""
WRONG = {
    "status": ("sys.exit(3)", "the program ended with status 3"),
    "no JSON": ("Path('events.jsonl').write_text('{\\n')", "what is no event"),
    "no such event": ('Path("events.jsonl").write_text(\'{"event":"evaluation","ns":1}\\n\')', "what is no event"),
    "no time": ('Path("events.jsonl").write_text(\'{"event":"first_step","ns":-1}\\n\')', "what is no event"),
    "too long a line": ("Path('events.jsonl').write_text('x' * 300000)", "a line of more than"),
    "a pipe": ("os.mkfifo('events.jsonl')", "no regular file"),
    "elsewhere": ("snapshot(Recording('.'), 0, '../000000000.bin')", "a file below snapshots/ is wanted"),
    "not there": ("snapshot(Recording('.'), 0, 'snapshots/1.bin')", "not there"),
    "twice": ("r = Recording('.'); snapshot(r, 0); time.sleep(0.5); snapshot(r, 0)", "twice"),
    "a link": ("r = Recording('.'); os.symlink('/etc/hostname', 'snapshots/a'); snapshot(r, 0, 'snapshots/a')", "no regular"),
}


class Toy(Program):
    name, title = "toy", "Toy"

    def __init__(self, folder, text):
        shutil.copy(recording.__file__, folder / "recording.py")
        (folder / "toy.py").write_text(HEAD + text)
        self._file = folder / "toy.py"

    def available(self):
        return None

    def deviations(self, task):
        return []

    def settings(self, task):
        return {}

    def command(self, task):
        return [sys.executable, str(self._file)]


@pytest.fixture
def train(tmp_path):
    def train(text, workload=PPO, on_first_step=None, **options):
        system = Toy(tmp_path, text)
        (tmp_path / "run").mkdir()
        task = Task("toy", workload, 7, (0,))
        try:
            with FileRecorder(tmp_path / "run", workload, on_first_step, **options) as recorder:
                system.train(task, recorder)
        finally:
            system.stop()
            assert not [p for p in psutil.Process().children() if str(tmp_path) in " ".join(p.cmdline())]
        return bundle.read_events(tmp_path / "run" / "events.jsonl")

    return train


def steps_of(events):
    return [event.steps for event in events if type(event).__name__ == "Snapshot"]


def test_events_and_snapshots_are_passed_on_and_nothing_else_is_left(train, tmp_path):
    begun = []
    events = train(HONEST, on_first_step=lambda: begun.append(1))
    assert begun == [1]
    assert steps_of(events) == [0, 512, 1024, 1536, 2048, 2560]
    assert {type(event).__name__ for event in events} == {"FirstStep", "Snapshot", "Episode", "Progress"}
    assert all((tmp_path / "run" / f"snapshots/{steps:09d}.bin").read_text() == "policy" for steps in steps_of(events))
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["events.jsonl", "snapshots"]


def test_the_task_is_handed_over_as_json(train):
    train(
        """
assert task["seed"] == 7 and task["cores"] == [0]
assert task["workload"]["env"] == "CartPole-v1" and task["workload"]["ppo"]["rollout_steps"] == 16
with Recording(".") as r: snapshot(r, 0)
"""
    )


def test_it_is_asked_to_end_when_its_seconds_are_used_and_may_still_publish(train):
    workload = msgspec.structs.replace(LONG, budget_seconds=1.0)
    begun = time.monotonic()
    events = train(UNTIL_ASKED.format(rate=1), workload)
    assert 1.0 <= time.monotonic() - begun < 10.0
    assert len(steps_of(events)) == 2


def test_it_is_asked_to_end_when_it_goes_far_beyond_its_steps(train):
    events = train(UNTIL_ASKED.format(rate=100))
    assert len(steps_of(events)) == 2
    assert steps_of(events)[-1] >= PPO.budget_steps + PPO.snapshot_every_steps


def test_it_is_asked_to_end_when_the_run_is_interrupted_and_what_it_says_then_is_kept(train, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(UNTIL_ASKED.format(rate=1), LONG, on_first_step=interrupt)
    assert len(steps_of(bundle.read_events(tmp_path / "run" / "events.jsonl"))) == 2


def test_one_that_does_not_end_when_it_is_asked_is_killed(train, monkeypatch):
    monkeypatch.setattr(program, "GRACE_S", 0.5)
    workload = msgspec.structs.replace(LONG, budget_seconds=0.5)
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwith Recording('.') as r: r.first_step(now())\ntime.sleep(600)"
    with pytest.raises(ProgramFailed, match="did not end within"):
        train(deaf, workload)


@pytest.mark.parametrize("kind", WRONG)
def test_a_program_that_breaks_the_contract_fails_in_one_line(kind, train):
    text, why = WRONG[kind]
    with pytest.raises(ProgramFailed, match=why) as caught:
        train(text)
    assert "\n" not in str(caught.value)


def test_a_command_that_does_not_exist_is_named(tmp_path):
    class Nowhere(Toy):
        def command(self, task):
            return ["/nowhere/learner"]

    with FileRecorder(tmp_path, PPO) as recorder, pytest.raises(ProgramFailed, match="/nowhere/learner"):
        Nowhere(tmp_path, "").train(Task("toy", PPO, 0, (0,)), recorder)
