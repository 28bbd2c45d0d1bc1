"""A run's folder: its contents, resuming, and errors."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest
from commands import refusal
from safetensors import safe_open
from tensorboardX.proto.event_pb2 import Event

from programs.cli import INTERRUPTED, ConfigError, run
from tianji import run_folder
from tianji.__main__ import main
from tianji.algorithms.state import State
from tianji.config import DQNConfig, NetworkConfig, NormaliseConfig, SimulatorConfig
from tianji.launch.events import Trouble
from tianji.policy import load_policy
from tianji.run.training import train
from tianji.run_folder import (
    RunFolder,
    Tally,
    before,
    episodes_path,
    mend_state,
    read_state,
    replacing,
    state_path,
    write_state,
)
from tianji.tensors import save_tensors
from tianji.worlds import episodes as stored_episodes

FAST = ["--env", "CartPole-v1", "--quiet", "--stop-steps", "2048", "--set", "ppo.rollout_steps=32"]
"""Eight rounds of 256 steps."""


def complaint(capsys, arguments):
    return refusal(capsys, run, "tianji", main, arguments)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The folder of a run that has ended; for reading."""
    folder = tmp_path_factory.mktemp("ended") / "run"
    assert run("tianji", main, ["train", *FAST, "--actors", "2", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def folder(ended, tmp_path):
    """A copy of it."""
    return shutil.copytree(ended, tmp_path / "run")


def test_what_a_run_leaves_is_enough_to_play_and_to_go_on(folder, capsys):
    assert run("tianji", main, ["evaluate", str(folder), "--episodes", "2"]) == 0
    assert "over 2 episodes" in capsys.readouterr().out
    before = read_state(state_path(RunFolder(folder).state, 0))
    assert before.values["learner"]["steps"] == 2048
    assert int(before.arrays["optimizer_steps"]) == 8 * 10
    assert run("tianji", main, ["train", "--resume", str(folder), "--stop-steps", "4096", "--quiet"]) == 0
    assert "4,096 steps, 160 updates" in capsys.readouterr().out
    result = json.loads((folder / "result.json").read_text())
    progress = json.loads((folder / "progress.json").read_text())
    assert (result["steps"], result["optimizer_steps"]) == (4096, 160)
    assert result["episodes"] == progress["episodes"] > len(progress["returns"]) > 0
    after = read_state(state_path(RunFolder(folder).state, 0))
    assert int(after.arrays["optimizer_steps"]) == 160
    assert np.array_equal(load_policy(folder / "policy.safetensors").weights, after.arrays["weights"])


def test_a_run_that_is_done_is_done(folder, capsys):
    weights = load_policy(folder / "policy.safetensors").weights
    assert run("tianji", main, ["train", "--resume", str(folder), "--quiet"]) == 0
    assert "2,048 steps, 80 updates" in capsys.readouterr().out
    assert np.array_equal(load_policy(folder / "policy.safetensors").weights, weights)


@pytest.mark.parametrize(
    "more",
    [{}, {"groups": 2}, {"groups": 4, "actors": 1, "fan_in": 2}, {"discipline": "relaxed"}, {"algo": "impala"}],
    ids=["one", "groups", "tree", "relaxed", "impala"],
)
def test_lockstep_runs_are_resumed_too(small, tmp_path, more):
    train(small(world="lockstep", **more), out=tmp_path / "run")
    result = train(small(world="lockstep", stop_steps=4096, **more), out=tmp_path / "run", resume=True)
    assert result.outcome == "steps"
    assert 4096 - result.steps < result.config.round_steps


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("world", ["real", "lockstep"])
def test_a_run_that_stores_nothing_goes_on_from_what_was_stored(small, tmp_path, world):
    """It started from scratch, without a word."""
    train(small(world=world), out=tmp_path / "run")
    stored = state_path(RunFolder(tmp_path / "run").state, 0)
    before = stored.read_bytes()
    first = train(small(world=world, stop_steps=4096, checkpoint_seconds=None), out=tmp_path / "run", resume=True)
    assert (first.steps, first.version) == (4096, 256)
    assert stored.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["--actors", "3"], "actors was 2 when this run began"),
        (["--set", "ppo.clip=0.3"], "ppo was"),
        (["--out", "elsewhere"], "--out and --resume"),
        (["--env", "Acrobot-v1"], "env was 'CartPole-v1'"),
    ],
)
def test_what_a_run_began_with_stays(folder, capsys, change, says):
    assert says in complaint(capsys, ["train", "--resume", str(folder), *change])


def test_a_linear_schedule_is_not_extended(folder, capsys):
    """Its learning rate is zero from there on: the run would go on and learn nothing."""
    data = json.loads((folder / "config.json").read_text())
    assert data["horizon_steps"] == data["stop_steps"]
    data["ppo"] = data["ppo"] | {"learning_rate_schedule": "linear"}
    (folder / "config.json").write_text(json.dumps(data))
    steps = data["stop_steps"]
    said = complaint(capsys, ["train", "--resume", str(folder), "--stop-steps", str(steps + 1)])
    assert f"its learning rate falls to zero at {steps:,} steps (horizon_steps)" in said
    assert run("tianji", main, ["train", "--resume", str(folder), "--quiet"]) == 0


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    assert "is this the folder of a run?" in complaint(capsys, ["train", "--resume", str(tmp_path)])
    assert "is this the folder of a run?" in complaint(capsys, ["evaluate", str(tmp_path)])
    assert "no such run folder or policy file" in complaint(capsys, ["evaluate", str(tmp_path / "p.safetensors")])


def test_damaged_state_is_refused_and_left_as_it_is(folder, capsys):
    path = state_path(RunFolder(folder).state, 0)
    before(path).unlink(missing_ok=True)
    whole = path.read_bytes()
    for damage, says in [
        (whole[: len(whole) // 2], "damaged state"),
        (whole.replace(b'"schema":"3"', b'"schema":"9"'), "schema 9"),
        (b"", "damaged state"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "its bytes are not those that were written"),
    ]:
        path.write_bytes(damage)
        assert says in complaint(capsys, ["train", "--resume", str(folder)])
        assert path.read_bytes() == damage
    path.unlink()
    assert "nothing was stored" in complaint(capsys, ["train", "--resume", str(folder)])


def twice(folder):
    """A state that was stored twice, after 4,096 steps and after 6,144, and its path."""
    for steps in (4096, 6144):
        assert run("tianji", main, ["train", "--resume", str(folder), "--stop-steps", str(steps), "--quiet"]) == 0
    path = state_path(RunFolder(folder).state, 0)
    assert read_state(before(path)).values["learner"]["steps"] == 4096
    return path


def cut(path):
    path.write_bytes(path.read_bytes()[:1000])


def flip(path):
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink], ids=["cut", "one bit", "gone"])
def test_a_run_goes_on_from_the_state_before_a_damaged_one(folder, capsys, damage):
    path = twice(folder)
    damage(path)
    left = path.read_bytes() if path.exists() else None
    capsys.readouterr()
    assert run("tianji", main, ["train", "--resume", str(folder), "--stop-steps", "8192", "--quiet"]) == 0
    said = capsys.readouterr()
    assert "going on from the state before, after 4,096 steps" in said.err
    assert "8,192 steps" in said.out
    assert read_state(path).values["learner"]["steps"] == 8192
    kept = path.with_stem(f"{path.stem}-damaged")
    assert (kept.read_bytes() if kept.exists() else None) == left


def test_a_dry_run_says_so_too_and_changes_nothing(folder, capsys):
    path = twice(folder)
    flip(path)
    there = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    capsys.readouterr()
    assert run("tianji", main, ["train", "--resume", str(folder), "--stop-steps", "8192", "--dry-run"]) == 0
    assert "going on from the state before, after 4,096 steps" in capsys.readouterr().out
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == there


def test_a_disk_that_is_full_at_a_checkpoint_leaves_both_states(folder, monkeypatch):
    path = twice(folder)
    whole, older = path.read_bytes(), before(path).read_bytes()

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_folder, "save_tensors", full)
    with pytest.raises(OSError, match="No space"):
        write_state(path, read_state(path))
    assert (path.read_bytes(), before(path).read_bytes()) == (whole, older)
    assert len(list(path.parent.iterdir())) == 2


def test_states_are_kept_where_a_file_can_have_one_name_only(tmp_path, monkeypatch):
    def refused(*arguments):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(run_folder.os, "link", refused)
    path = tmp_path / "state.safetensors"
    for steps in (1, 2, 3):
        write_state(path, State({"weights": np.zeros(steps)}, {"learner": {"steps": steps}}))
    assert [read_state(place).values["learner"]["steps"] for place in (path, before(path))] == [3, 2]
    flip(path)
    assert "after 2 steps" in mend_state(path)
    assert read_state(path).values["learner"]["steps"] == 2
    assert mend_state(path) is None


@pytest.mark.parametrize("damage", ["{", "{}", '{"seconds": "long", "episodes": 1, "returns": []}'])
def test_a_damaged_tally_is_refused_and_left_as_it_is(folder, capsys, damage):
    path = RunFolder(folder).progress
    path.write_text(damage)
    assert str(path) in complaint(capsys, ["train", "--resume", str(folder)])
    assert path.read_text() == damage


def test_state_of_another_network_is_refused(folder, tmp_path, capsys):
    assert run("tianji", main, ["train", *FAST, "--out", str(tmp_path / "other"), "--set", "network.hidden=[8]"]) == 0
    path = state_path(RunFolder(folder).state, 0)
    path.write_bytes(state_path(RunFolder(tmp_path / "other").state, 0).read_bytes())
    capsys.readouterr()
    assert "another network" in complaint(capsys, ["train", "--resume", str(folder)])


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "file"
    path.write_text("whole")

    def fail():
        with replacing(path) as place:
            place.write_text("ha")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fail()
    assert path.read_text() == "whole"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_the_python_api_refuses_a_folder_in_use(small, tmp_path):
    (tmp_path / "precious").write_text("kept")
    with pytest.raises(ConfigError, match="not empty"):
        train(small(), out=tmp_path)
    with pytest.raises(ConfigError, match="no folder to go on from"):
        train(small(), resume=True)


def test_curves_for_tensorboard(small, tmp_path):
    from tianji.messages import Episode, Episodes, Progress
    from tianji.run.curves import Curves
    from tianji.run.display import Live
    from tianji.run.loggers import TensorBoard

    live = Live()
    with Curves([TensorBoard(tmp_path, {})]) as curves:
        for second in (1, 2):
            live.see(Episodes("actor g0.a0", 0, 0, [Episode(0, 20.0 * second, 20 * second, 0)]))
            counters = {"steps": 1000.0 * second, "optimizer_steps": 10.0 * second, "staleness_mean_versions": 2.0}
            if live.see(Progress("learner g0", second * 10**9, counters)):
                curves.add(live)
    (file,) = tmp_path.iterdir()
    points = {}
    data = file.read_bytes()
    while data:
        # A record: length, its checksum, the event, its checksum (TensorFlow's TFRecord).
        length = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + length])
        points.update({(value.tag, event.step): value.simple_value for value in event.summary.value})
        data = data[16 + length :]
    assert points["throughput/steps_per_s", 2000] == 1000
    assert points["throughput/updates_per_s", 2000] == 10
    assert points["return/mean_of_100", 2000] == 30
    assert points["staleness/mean_versions", 1000] == 2


def test_curves_of_a_run_that_is_resumed_begin_with_numbers(tmp_path, recwarn):
    """Lengths of earlier episodes are not stored: their mean was NaN, with a warning."""
    from tianji.messages import Progress
    from tianji.run.curves import Curves
    from tianji.run.display import Live
    from tianji.run.loggers import TensorBoard

    live = Live()
    live.go_on(Tally(10.0, 3, [20.0, 30.0]))
    assert live.see(Progress("learner g0", 10**9, {"steps": 1000.0, "optimizer_steps": 10.0}))
    with Curves([TensorBoard(tmp_path, {})]) as curves:
        curves.add(live)
    (file,) = tmp_path.iterdir()
    assert b"mean_of_100" in file.read_bytes()
    assert b"length_of_100" not in file.read_bytes()
    assert not recwarn.list


@pytest.mark.long(why="whole runs of real processes")
def test_a_run_whose_launcher_is_killed_can_be_resumed(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "tianji", "train", "--env", "CartPole-v1", "--quiet", "--set", "checkpoint_seconds=0.2"]
    process = subprocess.Popen([*command, "--out", str(folder)], stdout=subprocess.DEVNULL)
    own, path = psutil.Process(process.pid), state_path(folder / "state", 0)
    try:
        while not path.exists() or not (folder / "progress.json").exists():
            assert process.poll() is None
        children = own.children()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive
    stored = read_state(path).values["learner"]["steps"]
    limits = ["--stop-steps", str(stored + 4096), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "tianji", "train", "--resume", str(folder), *limits], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "result.json").read_text())
    assert stored + 4096 - 1024 < result["steps"] <= stored + 4096


def test_curves_cost_no_import_of_torch():
    code = "import sys; from tianji.run.loggers import summary_writer; summary_writer(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def steps_behind(policy):
    """Environment steps that it was learned from; a run's first one is from none."""
    with safe_open(policy, "numpy") as file:
        return int(file.metadata()["steps"])


def test_a_run_in_lockstep_that_is_interrupted_stores_its_state(tmp_path):
    arguments = ["train", *FAST, "--world", "lockstep", "--stop-steps", "10000000", "--stop-return", "501"]
    command = [sys.executable, "-m", "tianji", *arguments, "--set", "snapshot_every_steps=512", "--out", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        policy = tmp_path / "run" / "policy.safetensors"
        while not policy.exists() or steps_behind(policy) == 0:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[0]
    assert process.returncode == INTERRUPTED, said
    assert "interrupted before a mean of 501" in said
    stored = read_state(state_path(RunFolder(tmp_path / "run").state, 0)).values["learner"]["steps"]
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["outcome"] == "interrupted"
    assert result["steps"] == stored > 0
    more = ["train", "--resume", str(tmp_path / "run"), "--stop-steps", str(stored + 2048), "--quiet"]
    assert run("tianji", main, more) == 0


def test_a_state_of_an_earlier_version_is_refused_in_one_line(folder, capsys):
    path = state_path(RunFolder(folder).state, 0)
    state = read_state(path)
    save_tensors(state.arrays, path, {"schema": "1", "values": json.dumps(state.values)})
    assert "state of schema 1; this version reads 3" in complaint(capsys, ["train", "--resume", str(folder)])


def test_two_cannot_train_in_one_folder(ended, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(ended, folder)
    with RunFolder(folder).locked():
        said = complaint(capsys, ["train", "--resume", str(folder), "--stop-steps", "4096", "--quiet"])
    assert "another process trains in this folder" in said
    # The lock of one that is gone holds nobody up.
    assert run("tianji", main, ["train", "--resume", str(folder), "--stop-steps", "4096", "--quiet"]) == 0


def test_code_that_a_folder_names_is_imported_only_when_its_user_says_so(ended, tmp_path, capsys, own):
    ran = tmp_path / "ran"
    own(f"import pathlib\npathlib.Path({str(ran)!r}).write_text('x')\nraise RuntimeError('it ran')", "trap_code")
    folder = tmp_path / "run"
    shutil.copytree(ended, folder)
    data = json.loads((folder / "config.json").read_text())
    commands = {
        "env": [["train", "--resume", str(folder), "--quiet"], ["evaluate", str(folder)]],
        "factory": [["train", "--resume", str(folder), "--quiet"], ["evaluate", str(folder)]],
    }
    for what, given in commands.items():
        named = data | {"env": "trap_code:Env"} if what == "env" else data | {"network": {"factory": "trap_code:make"}}
        (folder / "config.json").write_text(json.dumps(named))
        for arguments in given:
            said = complaint(capsys, arguments)
            assert "names code that would be imported, trap_code:" in said
            assert "--trust" in said
            assert not ran.exists()
            assert "names code" not in complaint(capsys, [*arguments, "--trust"])
            ran.unlink(missing_ok=True)
        # Whoever names it themselves need not say more.
        own_words = ["--env", "trap_code:Env"] if what == "env" else ["--network", "trap_code:make"]
        assert "names code" not in complaint(capsys, [*given[1], *own_words])
        if what == "env":
            assert ran.exists(), "nothing would have been imported: the test shows nothing"
            ran.unlink()


# To the last bit


def arrays_of(folder):
    return read_state(state_path(RunFolder(folder).state, 0)).arrays


NET = NetworkConfig(hidden=(16,))
DQN = DQNConfig(learning_starts=500, train_every_steps=64, updates=8, replay_capacity=3000)
EXACT = {
    "ppo": {},
    "normalised": {"env": "Pendulum-v1", "normalise": NormaliseConfig(observations=True, rewards=True)},
    "dqn": {"algo": "dqn", "discipline": "reactor", "dqn": DQN},
    "dqn, before it learns": {"algo": "dqn", "discipline": "reactor", "dqn": DQNConfig(learning_starts=1400)},
    "pictures": {"env": "CartPole-v1", "simulator": SimulatorConfig(picture=36), "actors": 1, "envs_per_actor": 2},
}


@pytest.mark.parametrize("more", EXACT.values(), ids=EXACT)
def test_a_run_in_lockstep_that_goes_on_is_the_one_that_never_stopped(small, tmp_path, more):
    more = {"world": "lockstep", "network": NET, "horizon_steps": 2048, **more}
    if "simulator" in more:
        more["network"] = NetworkConfig()
    train(small(stop_steps=2048, **more), out=tmp_path / "whole")
    told = []
    train(small(stop_steps=1024, **more), out=tmp_path / "run")
    train(small(stop_steps=2048, **more), told.append, out=tmp_path / "run", resume=True)
    whole, run_on = arrays_of(tmp_path / "whole"), arrays_of(tmp_path / "run")
    assert [name for name in whole if not np.array_equal(whole[name], run_on[name])] == []
    assert [message.text for message in told if isinstance(message, Trouble)] == []


def test_a_run_in_lockstep_may_stop_at_any_moment(small, tmp_path):
    """Its actors are then within a fragment, which is sampled again from its start."""
    more = {"world": "lockstep", "network": NET}
    train(small(stop_steps=2048, **more), out=tmp_path / "whole")
    heard = []

    def few(message):
        heard.append(message)
        return "enough" if len(heard) == 9 else None

    first = train(small(stop_steps=2048, **more), few, out=tmp_path / "run")
    assert 0 < first.steps < 2048
    train(small(stop_steps=2048, **more), out=tmp_path / "run", resume=True)
    whole, run_on = arrays_of(tmp_path / "whole"), arrays_of(tmp_path / "run")
    assert [name for name in whole if not np.array_equal(whole[name], run_on[name])] == []


def ahead(folder):
    path = episodes_path(RunFolder(folder).state, 0)
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "steps": kept["steps"] + 1}))


def gone(folder):
    episodes_path(RunFolder(folder).state, 0).unlink()


@pytest.mark.parametrize(
    ("more", "harm", "why"),
    [
        ({"discipline": "relaxed"}, None, "sampled again|were ahead"),
        ({"env": "LunarLander-v3"}, None, "LunarLander cannot give its state"),
        ({"groups": 2}, None, "sampled again"),
        ({}, ahead, "of another moment"),
        ({}, gone, "no state of its environments"),
    ],
    ids=["relaxed", "an environment", "groups", "of another state", "gone"],
)
def test_a_run_that_does_not_go_on_to_the_last_bit_says_why(small, tmp_path, more, harm, why):
    made = small(world="lockstep", network=NET, **more)
    train(made, out=tmp_path / "run")
    if harm is not None:
        harm(tmp_path / "run")
    told = []
    train(msgspec.structs.replace(made, stop_steps=4096), told.append, out=tmp_path / "run", resume=True)
    (said,) = [message.text for message in told if isinstance(message, Trouble)]
    assert re.search(f"does not go on to the last bit: .*({why})", said)


def test_a_state_of_environments_that_is_too_large_to_read_is_not_stored(small, tmp_path, monkeypatch):
    monkeypatch.setattr(stored_episodes, "MOST_BYTES", 1 << 10)
    train(small(world="lockstep", network=NET), out=tmp_path / "run")
    told = []
    train(small(world="lockstep", network=NET, stop_steps=4096), told.append, out=tmp_path / "run", resume=True)
    assert "MiB, so episodes begin anew" in "".join(m.text for m in told if isinstance(m, Trouble))


def test_a_damaged_state_of_environments_is_refused(small, tmp_path):
    train(small(world="lockstep", network=NET), out=tmp_path / "run")
    path = episodes_path(RunFolder(tmp_path / "run").state, 0)
    for damage in ("{", "[]", '{"steps": 2048, "actors": [{}, {}], "exact": true}'):
        path.write_text(damage)
        with pytest.raises(ConfigError, match=r"episodes-g0\.json"):
            train(small(world="lockstep", network=NET, stop_steps=4096), out=tmp_path / "run", resume=True)
