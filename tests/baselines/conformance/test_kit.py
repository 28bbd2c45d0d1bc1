"""The conformance kit: each check fails for a system that breaks it, and none for one that keeps the contract."""

import os
from pathlib import Path

import broken_systems
import msgspec
import pytest
from broken_systems import CLASSES
from guests import install

from baselines import system
from baselines.__main__ import main
from baselines.conformance import kit, trial
from programs.cli import run

BREAKS = [
    ("Crashing", kit.by_steps, "end", "exit status 1: RuntimeError: the engine fell off"),
    ("Boasting", kit.by_steps, "steps counted", "it reports 4,096 steps, and the environments counted 2,04"),
    ("Secretive", kit.by_steps, "steps counted", "more than 384 are missing"),
    ("Lazy", kit.by_steps, "budget of steps", "it ended after 1,024 of 2,048 steps"),
    ("Eager", kit.by_steps, "budget of steps", "it took 3,07"),
    ("Late", kit.by_steps, "snapshot before the first update", "after 512 steps"),
    ("Unfinished", kit.by_steps, "snapshot at the end", "the last one is after 1,024 steps"),
    ("Disordered", kit.by_steps, "snapshots in order", "version 91 comes after 95"),
    ("Sparse", kit.by_steps, "distance of snapshots", "1,024 steps lie between two; at most 640 are allowed"),
    ("Swelling", kit.by_steps, "distance of snapshots", "2,560 steps lie between two; at most 640 are allowed"),
    ("Damaged", kit.by_steps, "policies", "snapshots/000000000.safetensors cannot be played"),
    ("Dicing", kit.by_steps, "policies", "its player gives other returns for snapshots/000000000.txt each time"),
    ("Unplayable", kit.by_steps, "policies", "is no flat vector, and the system has no player"),
    ("Lingering", kit.by_seconds, "budget of seconds", "s of 1.0 s"),
    ("Hasty", kit.by_seconds, "budget of seconds", "s of 1.0 s"),
    ("Deaf", kit.by_request, "stop request", "after the stop request"),
    ("Spreading", kit.by_steps, "cores", "it may also run on cores"),
    ("Breeding", kit.by_steps, "processes left behind", "left: python"),
    ("Forgetful", kit.by_steps, "files left behind", "left: /dev/shm/psm_"),
    ("Untidy", kit.by_steps, "files left behind", "left: elsewhere/log.txt"),
]
SPEAKS_FOR = {
    # A system that breaks one rule may not keep another one.
    "Crashing": {"steps counted", "budget of steps", "snapshot before the first update", "snapshot at the end"},
    "Boasting": {"distance of snapshots", "budget of steps"},
    "Secretive": {"budget of steps"},
    "Unfinished": {"budget of steps"},
    "Swelling": {"budget of steps"},
}
EVERY = [
    "end",
    "steps counted",
    "budget of steps",
    "snapshot before the first update",
    "snapshot at the end",
    "snapshots in order",
    "distance of snapshots",
    "policies",
    "budget of seconds",
    "stop request",
    "cores",
    "processes left behind",
    "files left behind",
]


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """The systems, installed; and trials that are shorter than usual."""
    source = Path(broken_systems.__file__).read_text()
    install(tmp_path, monkeypatch, "tianji_bench.systems", "broken_guests", source, [c.__name__ for c in CLASSES])
    monkeypatch.setattr(kit, "SECONDS", 1.0)
    monkeypatch.setattr(trial, "STOP_S", 2.0)
    monkeypatch.setattr(trial, "LEAVE_S", 0.5)
    monkeypatch.setattr(kit.checks, "SLACK_S", 1.5)
    (tmp_path / "trial").mkdir()
    return tmp_path / "trial"


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize(("name", "part", "check", "why"), BREAKS, ids=[f"{b[0]}:{b[2]}" for b in BREAKS])
def test_a_system_that_breaks_the_contract_fails_the_check_for_it(name, part, check, why, broken):
    if check == "cores" and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core, and so none that is not the run's")
    seen, found = part(name.lower(), system.get(name.lower()), broken)
    found += kit.in_any([seen])
    failed = {one.name: one.failed for one in found if one.failed is not None}
    assert why in failed.pop(check)
    assert set(failed) <= SPEAKS_FOR.get(name, set())
    for file in seen.files_left:
        if file.startswith("/dev/shm/"):
            Path(file).unlink()


def test_policies_of_a_format_of_its_own_are_played(broken):
    _, found = kit.by_steps("playing", system.get("playing"), broken)
    assert [one.name for one in found if one.failed is not None] == []


@pytest.mark.parametrize("name", ["roomy", "sharing"])
def test_a_system_with_larger_rounds_or_a_number_of_actors_of_its_own_is_checked_too(name, broken):
    _, found = kit.by_steps(name, system.get(name), broken)
    assert [one.name for one in found if one.failed is not None] == []


def test_a_system_that_no_workload_suits_is_not_checked(broken, capsys):
    assert run("baselines", main, ["check", "choosy", "--only", "conformance"]) == 2
    assert capsys.readouterr().err == "baselines: system choosy: cannot be checked: nothing is good enough\n"


def test_budgets_are_a_number_of_the_rounds_that_a_system_can_have(broken):
    usual, larger = (kit.task_for(name, system.get(name)).workload for name in ("honest", "roomy"))
    assert (usual, kit.PPO.round_steps) == (kit.PPO, 128)
    assert (larger.budget_steps, larger.snapshot_every_steps, larger.horizon_steps) == (5 * 2048, 5 * 512, 5 * 4096)


def test_every_discipline_has_a_workload_and_says_how_large_its_rounds_get():
    tasks = {name: kit.task_for(name, system.get(name)) for name in system.names() if name.startswith("tianji-")}
    factors = {name: system.get(name).round_steps(task) / task.workload.round_steps for name, task in tasks.items()}
    slots = msgspec.to_builtins(system.get("tianji-quota-free").config(tasks["tianji-quota-free"]))["chunk_slots"]
    ragged = {"tianji-quota-free", "tianji-auto", "tianji-auto-priced"}
    late = {"tianji-grouped": 2}
    assert factors == {name: slots if name in ragged else late.get(name, 1) for name in tasks}
    assert tasks["tianji-grouped"].workload.actors == 2


def test_a_system_that_keeps_the_contract_passes_every_check(broken, capsys):
    assert run("baselines", main, ["check", "honest", "--only", "conformance"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{name}  ok" for name in EVERY]


def test_one_check_that_fails_is_told_of_by_the_exit_status(broken, capsys):
    assert run("baselines", main, ["check", "untidy", "--only", "conformance"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == [f"{name}  ok" for name in EVERY[:-1]]
    assert lines[-1].startswith("files left behind  failed: left: elsewhere/log.txt, elsewhere/log.txt")


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("name", ["sync-one", "tianji", "sb3"])
@pytest.mark.timeout(240)
def test_the_quick_systems_conform(name):
    found = system.get(name)
    if reason := found.available():
        pytest.skip(reason)
    failed = [str(check) for check in kit.conform(name, found) if check.failed is not None]
    assert failed == []
