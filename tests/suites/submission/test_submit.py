"""Submissions: a whole session is sealed and marked, and each spoiled one is refused in one line, before and after sealing."""

import json
import shutil
import sys
from pathlib import Path

import msgspec
import past
import pytest
from bundles import make

from baselines import system as systems
from baselines.system import Task
from programs.cli import run
from reports import dataset
from suites.__main__ import main
from suites.records import archive, bundle, notes, statement, store
from suites.records.events import Episode, Evaluation, FirstStep, Phase, Snapshot, Usage
from suites.session import catalogue
from suites.session.plan import Plan, block_of

ROOT = Path(__file__).parents[3]
WORKLOAD = "cartpole-ppo-quarter"
WALL = 1_764_000_000_000_000_000
SECOND = 10**9
MACHINE = {
    "cpu_model": "Abacus",
    "cpu_count": 2,
    "cpu_usable": 2,
    "cpu_quota_cores": None,
    "memory_bytes": 2**34,
    "load_1min_at_start": 0.5,
    "kernel": "6.1.0",
    "virtualised": False,
    "date": "2025-11-24",
    "system": "Linux",
    "python": "3.11.7",
    "packages": {"numpy": "2.4.6"},
    "git_commit": "c" * 40,
    "git_dirty": False,
    "noise_floor": 0.02,
}


def events(began_s, steps, episodes):
    """A run of ten seconds."""
    ns = began_s * SECOND
    return [
        Phase(ns, "setup", WALL + ns),
        FirstStep(ns + SECOND),
        Phase(ns + SECOND, "measured", WALL + ns + SECOND),
        Snapshot(ns + SECOND, 0, 0, "snapshots/0"),
        Episode(ns + 2 * SECOND, 9.0, 9, 9),
        Snapshot(ns + 11 * SECOND, steps, 7, "snapshots/1"),
        Usage(ns + 11 * SECOND, 12.0, 10**6),
        Evaluation(ns + 12 * SECOND, steps, 7, "curve", [9.0] * episodes),
    ]


def session(folder, names=("tianji", "sync"), blocks=2, **more):
    """A finished session of the convergence suite, which nobody measured."""
    workload = catalogue.load(WORKLOAD)
    data = msgspec.json.decode(msgspec.json.encode(workload))
    cells = [cell for block in range(blocks) for cell in block_of(WORKLOAD, names, None, block)]
    plan = Plan(
        session="abc123",
        suite="convergence",
        profile="smoke",
        workloads={WORKLOAD: data},
        systems=tuple(names),
        cores=(0, 1),
        cells=tuple(cells),
        noise_floor=0.02,
        load_1min=0.1,
    )
    folder.mkdir()
    (folder / "session.json").write_bytes(msgspec.json.encode(plan))
    for at, cell in enumerate(cells):
        known = cell.system in systems.names()
        task = Task(cell.system, workload, cell.seed, (0, 1))
        under_test = systems.get(cell.system) if known else None
        settings = under_test.settings(task) if under_test else {"version": "1.0"}
        make(
            folder,
            cell.directory,
            events(1000 + 100 * at, workload.budget_steps, workload.evaluation.episodes),
            **{
                "workload": WORKLOAD,
                "system": cell.system,
                "system_title": cell.system,
                "seed": cell.seed,
                "block": cell.block,
                "position": cell.position,
                "session": "abc123",
                "configuration": {"workload": data, "system": settings},
                "deviations": under_test.deviations(task) if under_test else ["It is a toy."],
                "environment": MACHINE,
                "phases_s": {"setup": 1.0, "measured": 10.0},
                "exit_status": 0,
            }
            | more,
        )
    return folder


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return session(tmp_path_factory.mktemp("good") / "session")


def change(folder, do, name="b0.p0.tianji"):
    """Change a run's `bundle.json`."""
    path = folder / f"{WORKLOAD}.{name}" / "bundle.json"
    told = json.loads(path.read_text())
    do(told)
    path.write_text(json.dumps(told))


def lines(folder, do, name="b0.p0.tianji"):
    """Change a run's events."""
    path = folder / f"{WORKLOAD}.{name}" / "events.jsonl"
    told = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(one) + "\n" for one in do(told)))


def everywhere(folder, do):
    for path in folder.glob("*/bundle.json"):
        change(folder, do, path.parent.name.removeprefix(f"{WORKLOAD}."))


def plan(folder, do):
    path = folder / "session.json"
    told = json.loads(path.read_text())
    do(told)
    path.write_text(json.dumps(told))


def environments(folder, count):
    """Another workload, for all that it says."""
    plan(folder, lambda p: p["workloads"][WORKLOAD].update(environments=count))
    everywhere(folder, lambda m: m["configuration"]["workload"].update(environments=count))


def with_returns(value):
    return lambda told: [one | ({"return": value} if one["event"] == "episode" else {}) for one in told]


def after(seconds):
    return lambda told: [one | ({"ns": one["ns"] - seconds * SECOND} if one.get("version") == 7 else {}) for one in told]


def shifted(seconds):
    return lambda told: [one | ({"wall_ns": one["wall_ns"] + seconds * SECOND} if "wall_ns" in one else {}) for one in told]


def copied(folder):
    source, target = (folder / f"{WORKLOAD}.b{block}.p0.tianji" / "events.jsonl" for block in (0, 1))
    target.write_bytes(source.read_bytes())


SPOILED = {
    "a run was left out": (lambda f: shutil.rmtree(f / f"{WORKLOAD}.b1.p0.tianji"), "1 of 4 cells of its plan are missing"),
    "its plan was shortened": (
        lambda f: (shutil.rmtree(f / f"{WORKLOAD}.b1.p0.tianji"), plan(f, lambda p: p["cells"].pop(2))),
        "positions have a gap; a run was left out",
    ),
    "a run is of another machine": (
        lambda f: change(f, lambda m: m["environment"].update(cpu_model="Loom")),
        "measured on different machines",
    ),
    "the checkout was changed": (
        lambda f: everywhere(f, lambda m: m["environment"].update(git_dirty=True)),
        "uncommitted changes",
    ),
    "no commit": (lambda f: everywhere(f, lambda m: m["environment"].update(git_commit=None)), "it has no commit"),
    "two commits": (lambda f: change(f, lambda m: m["environment"].update(git_commit="d" * 40)), "of 2 commits"),
    "a busy machine": (lambda f: plan(f, lambda p: p.update(load_1min=3.5)), "the machine was busy when it began: load 3.5"),
    "another workload": (
        lambda f: environments(f, 16),
        "differs from the project's in environments, so its division is open",
    ),
    "another workload than planned": (
        lambda f: plan(f, lambda p: p["workloads"][WORKLOAD].update(environments=16)),
        "runs trained on another workload than the plan states",
    ),
    "a workload of somebody else": (
        lambda f: (
            plan(f, lambda p: [cell.update(workload="my-own") for cell in p["cells"]]),
            plan(f, lambda p: p["workloads"].update({"my-own": p["workloads"][WORKLOAD]})),
            everywhere(f, lambda m: m.update(workload="my-own")),
        ),
        "workload my-own of suite convergence is not one of the project's",
    ),
    "other settings": (
        lambda f: change(f, lambda m: m["configuration"]["system"].update(envs_per_actor=1)),
        "tianji has other settings than its adapter makes of the workload (envs_per_actor): add --tuned",
    ),
    "a hidden deviation": (
        lambda f: change(f, lambda m: m["deviations"].append("It cheats.")),
        "states a deviation that its adapter does not: 'It cheats.'",
    ),
    "a path": (lambda f: change(f, lambda m: m.update(system_title="/home/ada/rl")), "holds an absolute path"),
    "another seed": (lambda f: change(f, lambda m: m.update(seed=7)), "every run must have seed"),
    "a measurement twice": (copied, "one measurement cannot be two runs"),
    "an impossible return": (lambda f: lines(f, with_returns(1e6)), "it has a return of 1e+06; CartPole-v1 gives 0 to 500"),
    "a clock that runs backwards": (lambda f: lines(f, after(30)), "its clock goes backwards"),
    "too many steps for the clock": (
        lambda f: lines(f, lambda told: [one | ({"steps": 10**9} if one.get("steps", 0) > 9 else {}) for one in told]),
        "it did 1,000,000,000 steps in 10.0 s on 2 cores",
    ),
    "two runs at once": (
        lambda f: lines(f, shifted(105)),
        "runs of a session take turns",
    ),
    "more processor time than there is": (
        lambda f: lines(f, lambda told: [one | ({"cpu_s": 900.0} if one["event"] == "usage" else {}) for one in told]),
        "it used 900 s of processor time in",
    ),
}


@pytest.mark.parametrize("name", SPOILED)
def test_what_is_spoiled_is_refused_before_and_after_it_is_sealed(name, good, tmp_path, capsys):
    spoil, says = SPOILED[name]
    folder = tmp_path / "session"
    shutil.copytree(good, folder)
    spoil(folder)
    assert run("tianji-bench", main, ["submit", str(folder), "--out", str(tmp_path / "out")]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if says in line]
    assert len(told) == 1
    assert not (tmp_path / "out").exists()
    # Someone seals it without asking.
    count = len(list(folder.glob("*/bundle.json")))
    plan(folder, lambda p: p.update(cells=p["cells"][:count]))
    archive.seal(folder, tmp_path / "one.parquet")
    assert run("tianji-bench", main, ["validate", str(tmp_path / "one.parquet")]) == 1
    out, err = capsys.readouterr()
    assert ": valid" not in out
    assert says in err or name == "a run was left out"
    assert all(line.startswith(f"tianji-bench: {tmp_path / 'one.parquet'}: ") for line in err.splitlines())


def test_a_good_session_is_sealed_with_its_note_and_is_valid(good, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("tianji-bench", main, ["submit", str(good), "--out", str(out), "--purpose", "A toy"]) == 0
    said = capsys.readouterr().out
    assert "cp -r" in said
    assert "whether the numbers are honest" in said
    file = out / "convergence-abc123.parquet"
    assert {path.name for path in out.iterdir()} == {file.name, "sessions.toml", "README.md"}
    assert notes.note(file).purpose == "A toy"
    assert len(store.load([out]).bundles) == 4
    assert {(b.manifest.division, b.manifest.tuned) for b in archive.read(file)} == {("closed", False)}
    assert run("tianji-bench", main, ["validate", str(file)]) == 0
    assert "valid: 4 runs in 2 blocks of convergence, closed, vanilla, on 2 cores of Abacus" in capsys.readouterr().out
    # Nothing is written over.
    assert run("tianji-bench", main, ["submit", str(good), "--out", str(out)]) == 2


def again(folder, rates):
    """Let the first block have run again after all others, with these readings of the machine in its first run."""
    begun = msgspec.json.decode((folder / "session.json").read_bytes(), type=Plan)
    first = begun.blocks()[0]
    begun = begun.repeated(first, 0.6)
    (folder / "session.json").write_bytes(msgspec.json.encode(begun))
    for at, (old, cell) in enumerate(zip(first, begun.cells[-len(first) :], strict=True)):
        make(
            folder,
            cell.directory,
            events(3000 + 100 * at, catalogue.load(WORKLOAD).budget_steps, catalogue.load(WORKLOAD).evaluation.episodes),
            **json.loads((folder / old.directory / "bundle.json").read_text()) | {"block": cell.block},
        )
    of_first = {0: [100.0, 100.0], 1: rates}
    everywhere(folder, lambda m: m["environment"].update(bare_loop=[100.0, 101.0] if m["block"] else of_first[m["position"]]))


@pytest.mark.parametrize(("last", "valid"), [(160.0, True), (129.0, False)])
def test_a_block_may_run_again_where_the_loop_says_that_the_machine_changed(good, tmp_path, capsys, last, valid):
    folder, out = tmp_path / "session", tmp_path / "out"
    shutil.copytree(good, folder)
    again(folder, [last, last])
    assert run("tianji-bench", main, ["submit", str(folder), "--out", str(out)]) == (0 if valid else 2)
    if not valid:
        assert "block 0 ran again, but its machine changed by 0.29 alone" in capsys.readouterr().err
        return
    (file,) = out.glob("*.parquet")
    assert run("tianji-bench", main, ["validate", str(file)]) == 0
    found = archive.read(file)
    assert len(found) == 6
    assert {b.manifest.block for b in statement.repeated(found)} == {0}
    kept, told = dataset.once(found)
    assert {b.manifest.block for b in kept} == {1, 2}
    assert told == [
        f"left out: 2 runs of {WORKLOAD} (convergence) in {file.name}, in blocks that ran again: the machine changed"
    ]


def test_a_repeated_block_has_the_same_runs(good, tmp_path, capsys):
    folder = tmp_path / "session"
    shutil.copytree(good, folder)
    again(folder, [160.0, 160.0])
    for path in folder.glob(f"{WORKLOAD}.b2.*/bundle.json"):
        path.write_text(path.read_text().replace('"seed": 0', '"seed": 9'))
    plan(folder, lambda p: [cell.update(seed=9) for cell in p["cells"] if cell["block"] == 2])
    assert run("tianji-bench", main, ["submit", str(folder), "--out", str(tmp_path / "out")]) == 2
    assert "block 2 is not block 0 once more" in capsys.readouterr().err


def test_failed_runs_stay(good, tmp_path, capsys):
    folder, out = tmp_path / "session", tmp_path / "out"
    shutil.copytree(good, folder)
    change(folder, lambda m: m.update(status="failed", error="it fell", exit_status=1))
    assert run("tianji-bench", main, ["submit", str(folder), "--out", str(out)]) == 0
    assert "1 of 4 runs failed; they stay in the session" in capsys.readouterr().out
    assert [b.manifest.status for b in archive.read(out / "convergence-abc123.parquet")].count("failed") == 1


def test_another_workload_and_other_settings_are_submitted_as_open_and_tuned(good, tmp_path, capsys):
    folder, out = tmp_path / "session", tmp_path / "out"
    shutil.copytree(good, folder)
    environments(folder, 16)
    everywhere(folder, lambda m: m["configuration"]["system"].update(envs_per_actor=1))
    options = ["submit", str(folder), "--out", str(out)]
    assert run("tianji-bench", main, [*options, "--division", "open"]) == 2
    assert "add --tuned" in capsys.readouterr().err
    assert run("tianji-bench", main, [*options, "--division", "open", "--tuned"]) == 0
    assert {(b.manifest.division, b.manifest.tuned) for b in store.load([out]).bundles} == {("open", True)}
    # The folder that was measured is as it was.
    assert {bundle.read(path).manifest.division for path in bundle.find([folder])} == {"closed"}


def test_a_system_of_another_package_says_its_version_and_what_it_deviates_in(tmp_path, capsys):
    folder, out = session(tmp_path / "session", ("tianji", "ours")), tmp_path / "out"
    assert run("tianji-bench", main, ["submit", str(folder), "--out", str(out)]) == 0
    assert "system ours deviates: It is a toy." in capsys.readouterr().out
    change(folder, lambda m: m["configuration"]["system"].clear(), "b0.p1.ours")
    assert run("tianji-bench", main, ["submit", str(folder), "--out", str(tmp_path / "other")]) == 2
    assert "its settings do not say its `version`" in capsys.readouterr().err


def test_everything_wrong_is_said_at_once(good, tmp_path, capsys):
    folder = tmp_path / "session"
    shutil.copytree(good, folder)
    for name in ("a busy machine", "the checkout was changed", "a hidden deviation", "an impossible return"):
        SPOILED[name][0](folder)
    assert run("tianji-bench", main, ["submit", str(folder), "--out", str(tmp_path / "out")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 4


@pytest.mark.parametrize("content", [None, b"", b"PAR1 nonsense"])
def test_what_is_no_sealed_session_has_exit_status_2(content, tmp_path, capsys):
    file = tmp_path / "one.parquet"
    if content is not None:
        file.write_bytes(content)
    assert run("tianji-bench", main, ["validate", str(file)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_makes_no_sense_is_one_line_and_code_that_a_file_names_is_not_imported(good, tmp_path, capsys):
    folder = tmp_path / "session"
    shutil.copytree(good, folder)
    plan(folder, lambda p: p["workloads"][WORKLOAD].update(env="antigravity:Pole-v0"))
    everywhere(folder, lambda m: m["configuration"]["workload"].update(env="antigravity:Pole-v0"))
    archive.seal(folder, tmp_path / "one.parquet", lambda run: bundle.marked(run, "open", False))
    assert run("tianji-bench", main, ["validate", str(tmp_path / "one.parquet")]) == 0
    assert "environment antigravity:Pole-v0 is not one of the project's workloads" in capsys.readouterr().out
    assert "antigravity" not in sys.modules
    everywhere(folder, lambda m: m["environment"].update(cpu_count="many"))
    archive.seal(folder, tmp_path / "two.parquet")
    assert run("tianji-bench", main, ["validate", str(tmp_path / "two.parquet")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_plan_is_needed(good, tmp_path, capsys):
    folder, file = tmp_path / "session", tmp_path / "one.parquet"
    shutil.copytree(good, folder)
    (folder / "session.json").unlink()
    archive.seal(folder, file)
    assert run("tianji-bench", main, ["validate", str(file)]) == 1
    assert "it has no plan" in capsys.readouterr().err
    assert run("tianji-bench", main, ["validate", "--earlier", str(file)]) == 0
    assert run("tianji-bench", main, ["submit", str(folder), "--out", str(tmp_path / "out")]) == 2
    assert "holds no session.json" in capsys.readouterr().err


# It reads every file, on machines of any speed.
@pytest.mark.timeout(600)
@pytest.mark.long(why="every sealed session is read")
def test_every_committed_session_is_valid_by_its_manifests_and_the_smallest_of_each_folder_wholly(capsys):
    files = store.sealed([ROOT / "results", ROOT / "docs" / "results"])
    ours = [file for file in files if "submitted" not in file.parts]
    theirs = [file for file in files if "submitted" in file.parts]
    beside = [file for file in ours if file.parent.name == "price" and file.stem in ("acrobot-ppo", "cartpole-ppo-zoo")]
    cut = [past.session("gpu/pong84-ppo-brief.parquet")]
    others = [file for file in ours if file not in beside]
    assert run("tianji-bench", main, ["validate", "--earlier", "--heads", *map(str, others)]) == 0, capsys.readouterr().err
    # A file that no run read had changed in the checkout: a workload's draft (docs/notebook/2026-11-plans.md).
    # Nothing else may be wrong with them.
    assert run("tianji-bench", main, ["validate", "--earlier", "--heads", *map(str, beside)]) == 1
    wrong = capsys.readouterr().err.splitlines()
    assert len(beside) == len(wrong) == 2
    assert all("the checkout had uncommitted changes" in line for line in wrong)
    # Of a machine whose time ended before the plan was done, and whose copy lacked the newest commits (results/README.md).
    assert run("tianji-bench", main, ["validate", "--earlier", *map(str, cut)]) == 1
    missing, changes = capsys.readouterr().err.splitlines()
    assert "2 of 8 cells of its plan are missing" in missing
    assert "the checkout had uncommitted changes" in changes
    smallest = {}
    for file in sorted(set(others), key=lambda file: file.stat().st_size):
        smallest.setdefault(file.parent, file)
    small = [str(file) for file in smallest.values() if file.stat().st_size < 300_000]
    assert run("tianji-bench", main, ["validate", "--earlier", *small]) == 0, capsys.readouterr().err
    if theirs:
        assert run("tianji-bench", main, ["validate", *map(str, theirs)]) == 0, capsys.readouterr().err
