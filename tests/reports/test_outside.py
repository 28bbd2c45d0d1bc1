"""Returns beside published ones, from made-up bundles."""

import msgspec
import pytest
from bundles import make

from reports import outside
from reports.__main__ import main
from suites.records.events import Episode, Evaluation, FirstStep, Snapshot
from suites.session import catalogue

SOURCE = outside.source()
CARTPOLE = "cartpole-ppo-cleanrl"


def plain(name):
    """A workload as a bundle has it."""
    return msgspec.json.decode(msgspec.json.encode(catalogue.load(name)))


def recorded(folder, value, seed=0, steps=SOURCE.steps, workload=CARTPOLE, early=1.0, **changes):
    """A run whose last 100 episodes have this return, after others with a return of `early`."""
    data = plain(workload)
    data["ppo"] |= changes
    episodes = [Episode(10 + i, early if i < 50 else value, 9, 10 * i) for i in range(150)]
    events = [FirstStep(5), *episodes, Snapshot(900, steps, 1, "f"), Evaluation(901, steps, 1, "curve", [1.0] * 20)]
    more = {"profile": "standard", "workload": workload, "system": "tianji", "seed": seed, "block": seed}
    make(folder, f"{workload}-{seed}", events, configuration={"workload": data}, **more)


def test_workloads_have_the_published_settings():
    assert set(SOURCE.returns) == {name for name in catalogue.names() if name.endswith("-cleanrl")}
    for name in SOURCE.returns:
        workload = plain(name)
        assert not list(outside._other(workload, SOURCE.settings)), name
        assert workload["budget_steps"] == SOURCE.steps
        assert workload["budget_steps"] % 512 == 0


def test_the_published_deviation_divides_by_the_number_of_seeds():
    assert SOURCE.published(CARTPOLE).sd == pytest.approx(6.12 * 1.5**0.5)


def test_equivalent_returns_pass_and_are_shown(tmp_path, capsys):
    for seed, value in enumerate((495.0, 498.0, 499.0)):
        recorded(tmp_path, value, seed)
        recorded(tmp_path, -200.0, seed, workload="mountaincar-ppo-cleanrl", early=-200.0)
    assert main(["outside", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("equivalent") == 2
    for part in ("497.33 ± 2.08", "490.04 ± 6.12", "±24.50", "+7.29", SOURCE.page):
        assert part in said


def test_another_return_fails(tmp_path, capsys):
    for seed in range(3):
        recorded(tmp_path, 400.0 + seed, seed)
    assert main(["outside", str(tmp_path)]) == 1
    assert "different" in capsys.readouterr().out


def test_one_seed_is_no_evidence(tmp_path, capsys):
    recorded(tmp_path, 300.0)
    assert main(["outside", str(tmp_path)]) == 0
    assert "too few seeds" in capsys.readouterr().out


def test_what_was_trained_otherwise_is_not_compared(tmp_path, capsys):
    recorded(tmp_path, 490.0, 0, clip=0.3)
    recorded(tmp_path, 490.0, 1, steps=400_000)
    assert main(["outside", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "seed 0: its workload has other settings: ppo.clip" in said
    assert "seed 1: it ended after 400000 of 499712 steps" in said
    assert "490.00" not in said


def test_runs_of_other_workloads_are_refused_in_one_line(tmp_path):
    make(tmp_path)
    with pytest.raises(Exception, match=f"no run is of a workload that others published: {CARTPOLE}"):
        main(["outside", str(tmp_path)])
