"""`tianji-bench tune` and sessions of the open division. Trials are made up here, apart from the last test's."""

import json
import shutil

import msgspec
import pytest
from bundles import ENVIRONMENT
from commands import refusal

from baselines.space import RATES
from programs.cli import run
from reports import dataset
from suites.__main__ import main
from suites.records import archive, bundle, tuned
from suites.records.bundle import Manifest
from suites.records.events import Episode, FirstStep, Snapshot
from suites.session import runner
from suites.session.suite import Request
from suites.tuning import sweep
from suites.tuning.run import Tuning
from suites.tuning.sweep import FIRST_SEED

RATE = "ppo.learning_rate"


def bench(*arguments):
    return run("tianji-bench", main, list(map(str, arguments)))


def in_order(space, seed, losses):
    """A search that tries every setting in turn."""
    return list(space.settings())[len(losses)]


@pytest.fixture
def searching(monkeypatch):
    """The search without Optuna."""
    monkeypatch.setattr("suites.tuning.run.propose", in_order)
    for module in ("search", "run"):
        monkeypatch.setattr(f"suites.tuning.{module}.sampler", lambda seed: f"in order, seed {seed}")


class Trials:
    """Stands for measuring a cell: its bundle says that the goal was reached after as many seconds as `seconds` has."""

    def __init__(self, seconds):
        self.seconds, self.options, self.stop_before = seconds, [], None
        self.later = {}
        """Seconds of a setting with the last seed."""

    def __call__(self, suite, plan, cell, out, progress):
        if len(self.options) == self.stop_before:
            raise KeyboardInterrupt
        work = suite.work(plan, cell)
        options = work.manifest["configuration"]["options"]
        self.options.append(options)
        after = self.seconds[options[RATE]]
        if cell.seed == max(one.seed for one in plan.cells):
            after = self.later.get(options[RATE], after)
        partial = out / f"{cell.directory}.partial"
        partial.mkdir()
        ns = 0 if after is None else round(after * 1e9)
        events = [FirstStep(1), *(Episode(1 + ns, 500.0, 9, 9) for _ in range(100)), Snapshot(2 + ns, 9, 1, "f")]
        (partial / "events.jsonl").write_bytes(b"".join(bundle.encode_event(event) + b"\n" for event in events))
        manifest = Manifest(
            schema=bundle.SCHEMA,
            status="failed" if after is None else "completed",
            error="it broke" if after is None else None,
            suite=plan.suite,
            profile=plan.profile,
            workload=cell.workload,
            system=cell.system,
            seed=cell.seed,
            replica=cell.replica,
            block=cell.block,
            position=cell.position,
            session=plan.session,
            options=cell.options,
            cores=len(plan.cores),
            environment=ENVIRONMENT,
            phases_s={},
            **suite.finished(work, partial),
        )
        return bundle.read(bundle.publish(partial, manifest)).manifest


@pytest.fixture
def trials(monkeypatch, searching):
    found = Trials(dict(zip((1e-3 * factor for factor in RATES), (5.0, 4.0, 1.0, 2.0, None), strict=True)))
    monkeypatch.setattr(runner, "run_cell", found)
    return found


def tune(out, workload, *more, trials=5):
    return bench("tune", "sync", workload, "--trials", trials, "--busy", "--out", out, *more)


def rates(options):
    return [one[RATE] for one in options]


def test_the_better_half_goes_on_with_more_of_the_budget(trials, tiny, tmp_path, capsys):
    assert tune(tmp_path / "out", tiny()) == 0
    found = tuned.read(tmp_path / "out" / tuned.FILE)
    assert rates(trials.options) == [2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 1e-3, 2e-3, 5e-4, *[1e-3, 2e-3] * 4]
    assert [one.budget_share for one in found.record] == [0.25] * 5 + [0.5] * 3 + [1.0] * 8
    seeds = [one.seed - FIRST_SEED for one in found.record]
    assert seeds == [0] * 5 + [1] * 3 + [2] * 2 + [3] * 2 + [4] * 2 + [5] * 2, "a rung has one seed, and the last one four"
    assert rates([found.options]) == [1e-3]
    assert (found.system, found.trials, found.sampler) == ("sync", 5, "in order, seed 0")
    runs = [bundle.read(tmp_path / "out" / one.run).manifest for one in found.record]
    budgets = [m.configuration["workload"]["budget_steps"] for m in runs]
    assert budgets == [256] * 5 + [512] * 3 + [1024] * 8
    assert {(m.suite, m.division, m.tuned) for m in runs} == {("tuning", "open", True)}
    out = capsys.readouterr().out
    assert "0.25 of the budget, ppo.learning_rate 0.004" in out, "a failed trial is shown"
    assert f"chosen: {RATE} 0.001" in out
    assert archive.seal(tmp_path / "out", tmp_path / "sealed.parquet") == 16


def test_a_tuning_that_was_cut_short_goes_on_with_the_trials_it_has(trials, tiny, tmp_path, capsys):
    trials.stop_before = 6
    assert tune(tmp_path / "out", tiny()) == 130
    assert "add --resume to go on" in capsys.readouterr().err
    assert not (tmp_path / "out" / tuned.FILE).exists()
    before = {path: path.stat().st_mtime_ns for path in bundle.find([tmp_path / "out"])}
    assert len(before) == 6
    trials.stop_before = None
    assert tune(tmp_path / "out", tiny(), "--resume") == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert rates(trials.options) == [2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 1e-3, 2e-3, 5e-4, *[1e-3, 2e-3] * 4]


def test_a_setting_that_was_quick_by_luck_is_not_chosen(trials, tiny, tmp_path, capsys):
    trials.later = {1e-3: 9.0}
    assert tune(tmp_path / "out", tiny()) == 0
    found = tuned.read(tmp_path / "out" / tuned.FILE)
    assert [one.seconds for one in found.record[-8:]] == [*[1.0, 2.0] * 3, 9.0, 2.0]
    assert rates([found.options]) == [2e-3], "1e-3 has the fastest run and the greater mean"


def test_a_setting_with_a_failed_run_is_not_chosen(trials, tiny, tmp_path, capsys):
    trials.later = {1e-3: None}
    assert tune(tmp_path / "out", tiny()) == 0
    assert rates([tuned.read(tmp_path / "out" / tuned.FILE).options]) == [2e-3]


def test_two_trials_run_with_the_seeds_of_a_last_rung(trials, tiny, tmp_path, capsys):
    assert tune(tmp_path / "out", tiny(), "--seed", "3", trials=2) == 0
    found = tuned.read(tmp_path / "out" / tuned.FILE)
    assert rates(trials.options) == [2.5e-4, 5e-4] * 4
    assert {one.budget_share for one in found.record} == {0.25}
    assert [one.seed - FIRST_SEED for one in found.record] == [18, 18, 19, 19, 20, 20, 21, 21], "six seeds for each number"
    assert (found.trials, rates([found.options])) == (2, [5e-4])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_every_setting_of_every_system_has_as_many_seeds_in_the_last_rung(searching, tiny, count):
    """Nothing that a user asks for changes their number: it is a constant."""
    found = set()
    for system in ("sync", "sync-one", "tianji"):
        plan, _ = Tuning().plan(
            Request(
                profile=sweep.NAME,
                systems=(system,),
                workloads=(str(tiny()),),
                blocks=count,
                first_seed=3,
                once=True,
                testbed=None,
                cores=(0, 1),
            )
        )
        last = [cell for cell in plan.cells if cell.block == plan.cells[-1].block]
        seeds = {}
        for cell in last:
            seeds.setdefault(cell.options["place"], []).append(cell.seed)
        found |= {tuple(one) for one in seeds.values()}
    (one,) = found
    assert len(set(one)) == len(one) == sweep.LAST_SEEDS, "the same seeds, too"


def test_nothing_is_chosen_where_every_trial_failed(trials, tiny, tmp_path, capsys):
    trials.seconds = dict.fromkeys(trials.seconds)
    assert tune(tmp_path / "out", tiny(), trials=2) == 1
    assert "nothing is chosen" in capsys.readouterr().err
    assert not (tmp_path / "out" / tuned.FILE).exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sync", "--trials", "13"], "--trials 13: give a number from 1 to 12"),
        (["sync", "--trials", "0"], "--trials 0"),
        (["sync", "--trials", "6"], "sync has only 5 different settings on cartpole-ppo-tiny"),
        (["sync", "--trials", "2", "--seed", "-1"], "--seed -1"),
        (["snyc", "--trials", "2"], "did you mean sync"),
        (["tianji-relaxed", "--trials", "2", "--resume"], "nothing to resume"),
    ],
)
def test_bad_input_gets_one_line(searching, tiny, tmp_path, capsys, arguments, says):
    name, *more = arguments
    assert says in refusal(capsys, bench, "tune", name, tiny(), *more, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_optuna_one_line_says_what_to_install(monkeypatch, tiny, tmp_path, capsys):
    monkeypatch.setattr("suites.tuning.search.installed", lambda: None)
    said = refusal(capsys, bench, "tune", "sync", tiny(), "--trials", 2, "--out", tmp_path / "out")
    assert "optuna is not installed (the extra tune)" in said


def test_a_result_has_no_seed_of_tuning(tiny, tmp_path, capsys):
    arguments = ["run", "convergence", "--systems", "sync", "--workloads", tiny(), "--out", tmp_path / "out", "--dry-run"]
    said = refusal(capsys, bench, *arguments, "--seeds", 2, "--first-seed", FIRST_SEED - 1)
    assert "seeds from 900000 on are for tuning" in said


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Place of a tuning that is made once, and copied by each test."""
    return tmp_path_factory.mktemp("kept") / "tuning"


@pytest.fixture
def chosen(kept, trials, tiny, tmp_path, capsys):
    """What a tuning wrote, and a function that writes it with changes."""
    if not kept.exists():
        assert tune(kept, tiny()) == 0
        capsys.readouterr()
    shutil.copytree(kept, tmp_path / "tuning")
    usual = tuned.read(tmp_path / "tuning" / tuned.FILE)

    def write(name="a.json", **changes):
        path = tmp_path / name
        path.write_bytes(msgspec.json.encode(msgspec.structs.replace(usual, **changes)))
        return path

    write.options, write.workload, write.record = usual.options, usual.workload, usual.record
    return write


def opened(tmp_path, tiny, *more):
    return ["run", "convergence", "--workloads", tiny(), "--out", tmp_path / "out", "--dry-run", *more]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schema": "tianji-bench/tuned/9"}, "has schema tianji-bench/tuned/9"),
        ({"system": "sync-one"}, "a file is of sync-one on cartpole-ppo-tiny, which is not of this session"),
        ({"options": {RATE: 1e-3}}, "environments is missing; tune again"),
        ({"options": {RATE: 7.0, "environments": 4, "ppo.rollout_steps": 32}}, f"{RATE} is 7.0, which is none of"),
        ({"workload": {"id": "cartpole-ppo-tiny", "env": "Else-v0"}}, "of another version of this workload; tune again"),
    ],
)
def test_settings_that_do_not_fit_are_refused(chosen, tiny, tmp_path, capsys, changes, says):
    said = refusal(capsys, bench, *opened(tmp_path, tiny, "--systems", "sync", "--tuned", chosen(**changes)))
    assert says in said


def test_every_system_of_an_open_session_is_tuned_alike(chosen, tiny, tmp_path, capsys):
    one = chosen()
    both = ("--systems", "sync,sync-one", "--tuned", one)
    assert "no file is of sync-one on cartpole-ppo-tiny" in refusal(capsys, bench, *opened(tmp_path, tiny, *both))
    more = chosen("b.json", system="sync-one", trials=12)
    assert "not sync 5, sync-one 12" in refusal(capsys, bench, *opened(tmp_path, tiny, *both, more))
    assert tuned.read(one).last_seeds == sweep.LAST_SEEDS
    fewer = chosen("d.json", system="sync-one", record=chosen.record[:-2])
    assert tuned.read(fewer).last_seeds == sweep.LAST_SEEDS - 1
    said = refusal(capsys, bench, *opened(tmp_path, tiny, *both, fewer))
    assert "as many seeds in the last rung of its tuning, not sync 4, sync-one 3; tune again" in said
    unknown = chosen("e.json", system="sync-one", record=())
    assert tuned.read(unknown).last_seeds is None
    assert bench(*opened(tmp_path, tiny, *both, unknown)) == 0, "a file that does not say is accepted"
    capsys.readouterr()
    again = chosen("c.json")
    assert "two files are of sync" in refusal(capsys, bench, *opened(tmp_path, tiny, "--tuned", one, again))
    no_suite = ["run", "staleness", "--tuned", one, "--out", tmp_path / "out"]
    assert "suite staleness has no open division" in refusal(capsys, bench, *no_suite)
    assert "damaged" in refusal(capsys, bench, *opened(tmp_path, tiny, "--tuned", damaged(tmp_path)))
    assert "no such file" in refusal(capsys, bench, *opened(tmp_path, tiny, "--tuned", tmp_path / "none.json")).lower()


def damaged(tmp_path):
    path = tmp_path / "damaged.json"
    path.write_text('{"schema": 3}')
    return path


def test_trials_are_no_results(chosen, tmp_path):
    with pytest.raises(bundle.BundleError, match="holds trials of a tuning, which are no results"):
        dataset.load([tmp_path / "tuning"])


@pytest.mark.long(why="a tuning, and a session with what it chose")
def test_a_session_of_the_open_division_runs_with_what_was_chosen(searching, guests, tiny, tmp_path, capsys):
    workload, tuning, out = tiny(training=100.0, evaluated=501.0), tmp_path / "tuning", tmp_path / "out"
    assert bench("tune", "keen", workload, "--trials", 1, "--busy", "--out", tuning) == 0
    arguments = ["--workloads", workload, "--tuned", tuning / tuned.FILE, "--seeds", 1, "--once", "--out", out]
    assert bench("run", "convergence", *arguments) == 0
    found = json.loads((tuning / tuned.FILE).read_text())
    assert found["record"][0]["seconds"] is not None
    (cell,) = map(bundle.read, bundle.find([out]))
    m = cell.manifest
    assert (m.status, m.division, m.tuned, m.options) == ("completed", "open", True, {})
    assert m.configuration["options"] == found["options"]
    assert m.configuration["workload"]["ppo"]["learning_rate"] == 1e-3, "the workload is as its file has it"
    assert any(line.startswith(f"Tuned: {RATE} 0.00025") for line in m.deviations)
    assert m.axes == {"division": "open", "tuned": True}
    begun = json.loads((out / runner.SESSION).read_text())
    assert not (out / bundle.CERTIFICATE).exists(), "it would be of settings that did not run"
    assert begun["tuned"] == [found], "the record of the trials is sealed with the session"
