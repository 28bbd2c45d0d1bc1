"""Players: a system's own command plays its snapshots, and what it prints is not trusted."""

import sys
from pathlib import Path

import psutil
import pytest
from guests import install

from programs.cli import ConfigError, run
from programs.process import adopt_orphans
from suites.__main__ import main as suites
from suites.convergence.run import OWN_PLAYER
from suites.records import bundle
from suites.records.events import Evaluation, Snapshot
from suites.session import catalogue, forks, players
from suites.session.evaluator import evaluate
from suites.session.players import PlayerFailed

HONEST = """
import json, sys
file, env, first, episodes = sys.argv[1:]
assert env == "CartPole-v1"
print("a greeting of some library")
print(json.dumps([float(open(file).read()) + int(first) + i for i in range(int(episodes))]))
"""
BROKEN = {
    "raises": ("raise SystemExit('the policy is of another game')", "status 1: the policy is of another game"),
    "is silent": ("pass", "no list of returns"),
    "prints words": ("print('[1.0, 2.0')", "no list of returns"),
    "prints too few": ("print([1.0])", "printed 1 returns for 4 episodes"),
    "prints what is no number": ("print('[NaN, 1, 1, 1]')", "no list of returns"),
    "prints what is not finite": ("print('[1e999, 1, 1, 1]')", "no list of returns"),
    "prints too much": ("while True: print('x' * 65536)", "more than"),
    "never ends": ("import time; time.sleep(600)", "had not ended after 1 s"),
    "is killed": ("import os; os.kill(os.getpid(), 9)", "status -9"),
}


@pytest.fixture
def own(tmp_path):
    """Snapshots of a format of the system's own."""
    (tmp_path / "snapshots").mkdir()
    found = []
    for i in range(3):
        file = f"snapshots/{i:09d}.zip"
        (tmp_path / file).write_text(f"{10 * i}")
        found.append(Snapshot(ns=i, steps=100 * i, version=i, file=file))
    return found


@pytest.fixture
def workload(tiny):
    return catalogue.load(str(tiny(training=1.0, evaluated=1e9)))


def returns(folder, workload, snapshots, player):
    return [e.returns for e in evaluate(folder, workload, snapshots, lambda share: None, player=player)]


def play_for_a_second(folder, workload, snapshots, player):
    with forks.pool("tj-judge", 1, "spawn", adopt_orphans) as pool:
        pool.submit(players.play, player, folder / snapshots[0].file, workload.env, 1, 4, limit_s=1.0).result()


def test_a_player_gets_the_snapshot_the_environment_and_the_seeds(tmp_path, workload, own):
    first = workload.evaluation.seed
    found = returns(tmp_path, workload, own, [sys.executable, "-c", HONEST])
    assert found == [[10.0 * i + first + k for k in range(4)] for i in range(3)]


@pytest.mark.long(why="whole sessions of real processes")
@pytest.mark.parametrize("kind", BROKEN)
def test_a_player_that_fails_is_told_of_in_one_line_and_leaves_nothing(kind, tmp_path, workload, own, monkeypatch):
    program, why = BROKEN[kind]
    command = [sys.executable, "-c", program]
    play = play_for_a_second if kind == "never ends" else returns
    with pytest.raises(PlayerFailed, match=why) as caught:
        play(tmp_path, workload, own, command)
    assert "\n" not in str(caught.value)
    assert own[0].file.rpartition("/")[2] in str(caught.value)
    assert not [p for p in psutil.Process().children(recursive=True) if p.name() == "tj-judge" or program in p.cmdline()]


def test_what_a_player_leaves_behind_is_ended_and_does_not_hold_its_output_open(tmp_path, workload, own):
    program = f"""
import subprocess, sys
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open({str(tmp_path / "left")!r}, "a").write(f"{{left.pid}}\\n")
print([1.0] * 4)
"""
    assert returns(tmp_path, workload, own, [sys.executable, "-c", program]) == [[1.0] * 4] * 3
    pids = [int(line) for line in (tmp_path / "left").read_text().splitlines()]
    assert len(pids) == 3
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)


def test_a_player_works_in_a_folder_of_its_own_that_is_removed(tmp_path, workload, own):
    program = "import os, sys; open('litter', 'w'); print(os.getcwd(), file=sys.stderr); sys.exit(3)"
    with pytest.raises(PlayerFailed, match="status 3") as caught:
        returns(tmp_path, workload, own, [sys.executable, "-c", program])
    folder = Path(str(caught.value).rpartition(": ")[2])
    assert "tj-player-" in folder.name
    assert not folder.exists()


def test_a_snapshot_that_is_a_link_is_not_followed(tmp_path, workload, own):
    (tmp_path / own[1].file).unlink()
    (tmp_path / own[1].file).symlink_to("/etc/hostname")
    with pytest.raises(PlayerFailed, match="is a link"):
        returns(tmp_path, workload, own, [sys.executable, "-c", HONEST])


def test_a_snapshot_of_an_own_format_needs_a_player(tmp_path, workload, own):
    with pytest.raises(ConfigError, match="its system has no player"):
        returns(tmp_path, workload, own, None)


def test_a_command_that_does_not_exist_is_named(tmp_path, workload, own):
    with pytest.raises(PlayerFailed, match=r"No such file.*nowhere/python"):
        returns(tmp_path, workload, own, ["/nowhere/python"])


SYSTEMS = """
import sys, time
from baselines.system import System


class Own(System):
    name, title = "own", "Own"

    def available(self):
        return None

    def deviations(self, task):
        return []

    def settings(self, task):
        return {}

    def player(self):
        return [sys.executable, "-c", "import sys; print([float(open(sys.argv[1]).read())] * int(sys.argv[4]))"]

    def train(self, task, recorder):
        recorder.first_step(time.monotonic_ns())
        for steps in range(0, task.workload.budget_steps + 1, task.workload.snapshot_every_steps):
            file = f"snapshots/{steps:09d}.txt"
            (recorder.directory / file).write_text(self.text(steps))
            recorder.snapshot_file(time.monotonic_ns(), steps, steps // 64, file)

    def text(self, steps):
        return str(steps)


class Worse(Own):
    def text(self, steps):
        return "no number" if steps == 512 else str(steps)


class Garbled(Own):
    def train(self, task, recorder):
        super().train(task, recorder)
        recorder.event("counter", 1, name="unit", value="many")
"""


@pytest.fixture
def outcome(tmp_path, monkeypatch, tiny):
    """Exit status and manifest of a session of one run, and its evaluations."""
    install(tmp_path, monkeypatch, "tianji_bench.systems", "own_systems", SYSTEMS, ("Own", "Worse", "Garbled"))

    def outcome(name):
        out = tmp_path / "out"
        chosen = ["--systems", name, "--workloads", str(tiny(evaluated=1000.0)), "--seeds", "1", "--once"]
        status = run("tianji-bench", suites, ["run", "convergence", *chosen, "--out", str(out)])
        (found,) = out.glob(f"*.{name}")
        read = bundle.read(found)
        return status, read.manifest, [e.returns for e in read.events if isinstance(e, Evaluation) and e.purpose == "curve"]

    return outcome


@pytest.mark.long(why="whole sessions of real processes")
def test_a_run_is_evaluated_by_the_player_and_says_so(outcome):
    status, manifest, curve = outcome("own")
    assert (status, manifest.status) == (0, "completed")
    assert curve == [[float(steps)] * 4 for steps in range(0, 1025, 256)]
    assert manifest.deviations == [OWN_PLAYER]


@pytest.mark.long(why="whole sessions of real processes")
def test_a_run_whose_player_fails_has_failed_in_one_line(outcome):
    status, manifest, curve = outcome("worse")
    assert (status, manifest.status, curve) == (1, "failed", [])
    assert "player of 000000512.txt: ended with status 1: ValueError" in manifest.error
    assert "\n" not in manifest.error


@pytest.mark.long(why="whole runs of real processes")
def test_a_run_whose_record_breaks_the_schema_has_failed(outcome):
    status, manifest, curve = outcome("garbled")
    assert (status, manifest.status, curve) == (1, "failed", [])
    assert "events.jsonl: line" in manifest.error
