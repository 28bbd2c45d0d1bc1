"""The answer on a terminal, from made-up bundles: its text, its length, and results that must not be pooled."""

import itertools
import json
import re

import msgspec
import pytest
import report_pages

from programs.cli import run
from reports import answer, dataset
from reports.__main__ import main
from suites.records.bundle import SCHEMA, Manifest, encode_event
from suites.records.events import Episode, FirstStep, Snapshot, Transfer
from suites.session import catalogue
from suites.transmission.sweep import WORKLOADS

SECOND, MIB = 10**9, 1 << 20
MACHINE = {"cpu_usable": 2, "cpu_model": "a processor", "load_1min_at_start": 0.1}
TITLES = {"tianji": "TianJi", "tianji-relaxed": "TianJi, relaxed", "sync": "synchronous", "rllib": "RLlib", "sb3": "SB3"}
PPO, DQN = "cartpole-ppo-made", "cartpole-dqn-made"
LIKE = {PPO: "cartpole-ppo-zoo", DQN: "cartpole-dqn-quick"}


def write(folder, suite, workload, system, block, events, configuration, **changes):
    directory = folder / f"{suite}.{workload}.b{block}.{system}{'-again' * changes.get('replica', 0)}"
    directory.mkdir(parents=True)
    usual = {"status": "completed", "profile": "smoke", "replica": 0, "session": "s", "environment": MACHINE}
    manifest = Manifest(
        schema=SCHEMA,
        suite=suite,
        workload=workload,
        system=system,
        system_title=TITLES.get(system, system),
        seed=block,
        block=block,
        position=0,
        cores=2,
        deviations=[],
        phases_s={},
        configuration=configuration,
        **{**usual, **changes},
    )
    (directory / "bundle.json").write_bytes(msgspec.json.encode(manifest))
    (directory / "events.jsonl").write_bytes(b"".join(encode_event(event) + b"\n" for event in events))
    return directory


def train(folder, workload, system, block, seconds, watched=None, stop_at_goal=True, **changes):
    """Make a run that reaches its training return of 100 after `seconds` (None: never) and lasts `watched` seconds."""
    value, end = (0.0, watched) if seconds is None else (100.0, seconds)
    at = round(end * SECOND)
    events = [FirstStep(0), *(Episode(at - 99 + k, value, 9, 400) for k in range(100)), Snapshot(at, 500, 1, "1")]
    thresholds = {"training": 100.0, "evaluated": 100.0}
    described = msgspec.to_builtins(catalogue.load(LIKE[workload])) | {"id": workload, "thresholds": thresholds}
    configuration = {"workload": described} | ({"stop_at_goal": True} if stop_at_goal else {})
    return write(folder, "convergence", workload, system, block, events, configuration, **changes)


def move(folder, workload, system, bytes_per_s, **changes):
    traffic = WORKLOADS[workload]
    moved = Transfer(0, size_bytes=MIB, messages=11, intervals=10, seconds=10 * MIB / bytes_per_s, cpu_s=1.0, tcp_bytes=None)
    extent = {"sizes": [MIB], "explorers": [1], "window_s": 0.1, "trips": 9}
    configuration = {"workload": msgspec.to_builtins(traffic), "extent": extent}
    where = {"testbed": traffic.testbed, "nodes": traffic.nodes, "explorers": 1}
    return write(folder, "transmission", workload, system, 0, [moved], configuration, **where, **changes)


@pytest.fixture
def session(tmp_path):
    """A main job: two blocks of two workloads, the slowest system in the first only, and messages in two places."""
    folder = tmp_path / "session"
    for block in (0, 1):
        for system, seconds in {"tianji": 2.0, "tianji-relaxed": 1.0, "sync": 3.0, "sb3": 10.0}.items():
            train(folder, PPO, system, block, seconds)
        train(folder, PPO, "sync", block, 3.0, replica=1)
        for system, seconds in {"tianji": 4.0, "sync": 4.0}.items():
            train(folder, DQN, system, block, seconds)
    train(folder, PPO, "rllib", 0, 40.0)
    train(folder, DQN, "sb3", 0, 8.0)
    train(folder, DQN, "sb3", 1, None, watched=20.0)
    rates = {"tianji": 8e9, "xingtian": 2e9, "ray-store": 1e9, "mp-queue": 5e8, "memcpy": 1e10}
    for system, rate in rates.items():
        move(folder, "samples", system, rate)
    for system, rate in {"tianji": 1.2e8, "ray-store": 1e8, "pyzmq": 1.2e8, "raw-tcp": 1.25e8}.items():
        move(folder, "samples-2hosts-1gbit", system, rate)
    return folder


def lines(*folders, **how):
    return answer.lines(dataset.load(list(folders)), **how)


def columns(line):
    """A bar's line in its parts."""
    return re.split(r"\s{2,}", line.strip())


def test_a_main_job_is_answered_in_twenty_lines(session, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("tianji-report", main, ["build", str(session), "--out", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == f"report: {out / 'index.html'}"
    assert said[:-1] == lines(session)
    assert len(said) == (1 + 3) + (1 + 5) + 3 + 1
    assert max(map(len, said[:-1])) <= 100
    assert "\x1b" not in "".join(said)
    assert report_pages.read(out).count("Runs ended soon after their training return was reached") == 2


def test_a_bar_a_system_with_seconds_n_and_how_many_times_tianji(session):
    said = lines(session)
    dqn, ppo = said[:4], said[4:10]
    assert ppo[0] == f"{PPO}: seconds to a training return of 100; TianJi is x times as fast"
    told = {columns(line)[0]: columns(line)[1:] for line in ppo[1:]}
    assert list(told) == ["TianJi", "TianJi, relaxed", "synchronous", "RLlib", "SB3"]
    assert told["TianJi"][1:] == ["2.00 s", "n = 2"]
    assert told["TianJi, relaxed"][1:] == ["1.00 s", "n = 2", "strict x 0.500"]
    assert told["synchronous"][1:] == ["3.00 s", "n = 2", "strict x 1.50, relaxed x 3.00"]
    assert told["RLlib"][1:] == ["40.0 s", "n = 1", "strict x 20.0, relaxed x 40.0"]
    lengths = {name: len(parts[0]) for name, parts in told.items()}
    assert {len(set(parts[0])) for parts in told.values()} == {1}
    longest = lengths["RLlib"]
    for name, seconds in {"TianJi": 2, "synchronous": 3, "SB3": 10}.items():
        assert lengths[name] == pytest.approx(longest * seconds / 40, abs=0.5)
    # Where one of two runs did not get there; and where a system that is meant for all workloads did not run.
    assert dqn[0].endswith("; TianJi is x times as fast; without RLlib")
    assert columns(dqn[3])[2:] == ["8.00 s", "n = 1 of 2", "TianJi x 3.50 (mean), > 3.16"]


def test_bars_fit_a_terminal_of_eighty_columns_and_one_that_knows_ascii_only(session):
    said = lines(session, columns=80, full="#", open_ended=".")
    bars = [line for line in said if "#" in line]
    assert len(bars) == 8
    assert max(map(len, bars)) <= 80
    assert all(line.isascii() for line in said)


def test_runs_that_never_got_there_and_runs_that_failed_are_said_in_their_line(session):
    train(session, DQN, "xingtian", 0, None, watched=30.0)
    train(session, DQN, "xingtian", 1, None, status="failed", watched=1.0, error="exit status 1\nout of [luck]")
    said = {columns(line)[0]: columns(line)[1:] for line in lines(session)[1:5]}
    bar, *rest = said["xingtian"]
    assert set(bar) == {"░"}
    assert rest == ["not in 30.0 s", "n = 0 of 1", "TianJi x 7.50 (mean), > 7.50", "1 failed: out of [luck]"]


def test_messages_are_told_in_three_lines_the_ceiling_first(session):
    said = [line for line in lines(session) if not line.startswith(("cartpole", "  TianJi", "  sync", "  RLlib", "  SB3"))]
    assert said == [
        "messages of 1 MiB (n = 1): TianJi's goodput, its share of the ceiling's, how many times two others'",
        "  samples, one host: 8.00 GB/s, 0.800 of memcpy, 4.00 x xingtian, 8.00 x ray-store",
        "  samples, two hosts, 1 Gbit/s: 0.120 GB/s, 0.960 of raw-tcp, 1.20 x ray-store, 1.00 x pyzmq",
    ]


def test_a_pipe_that_failed_is_a_line(session):
    move(session, "samples", "pyzmq", 1e9, status="failed", error="exit status 1\nit broke")
    assert (
        lines(session)[-1] == "transmission: 1 of 10 runs failed or say nothing; the first is samples, block 0, pyzmq: it broke"
    )


@pytest.mark.long(why="a whole report is built")
@pytest.mark.parametrize(
    "longer", [{"profile": "standard"}, {"stop_at_goal": False}], ids=["another profile", "runs that do not stop"]
)
def test_smoke_runs_are_never_pooled_with_longer_ones(session, tmp_path, capsys, longer):
    """Of a workload with both the longer ones count, and the others are named; where they were measured does not matter."""
    other = tmp_path / "longer"
    elsewhere = MACHINE | {"cpu_model": "another processor"}
    for block, system in itertools.product((0, 1), ("tianji", "sync")):
        seconds = 5.0 if system == "tianji" else 10.0
        train(other, PPO, system, block, seconds, session="t", environment=elsewhere, **longer)
    both, alone, smoke = dataset.load([session, other]), dataset.load([other]), dataset.load([session])
    assert [row for row in both.rows if row["workload"] == PPO] == alone.rows
    assert [row for row in both.rows if row["workload"] != PPO] == [row for row in smoke.rows if row["workload"] != PPO]
    (said,) = both.left_out
    assert said == f"left out: 11 smoke runs of {PPO} (convergence), which longer runs are never pooled with"
    assert alone.left_out == smoke.left_out == []
    out = tmp_path / "out"
    assert run("tianji-report", main, ["build", str(session), str(other), "--out", str(out)]) == 0
    assert said in capsys.readouterr().out
    assert said in (out / "how.html").read_text()
    rows = json.loads((out / "summary.json").read_text())["rows"]
    assert {row["n"] for row in rows if row["workload"] == PPO and row["metric"] == "time_to_threshold_s"} == {2}
