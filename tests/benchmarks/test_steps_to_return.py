"""Steps to a return under two disciplines: what is read from runs, and a run."""

import msgspec
import pytest

from benchmarks import steps_to_return
from benchmarks.steps_to_return import Run, compared, table, trained
from programs.cli import run
from suites.session import catalogue

RECORDED = "benchmarks/recorded/steps_to_return.jsonl"


def test_a_miss_counts_with_the_whole_budget():
    first, second = {0: 100, 1: 200, 2: 300}, {0: 100, 1: None, 2: 300}
    assert compared(first, second, 800).startswith(f"steps {1200 / 600:.3f} [")
    assert compared(first, second, 800).endswith("3 seeds; misses p = 1.00")


def test_misses_of_one_alone_are_told_from_chance():
    first, second = dict.fromkeys(range(30), 100), dict.fromkeys(range(30), 100) | dict.fromkeys(range(7))
    # Two-sided: all seven of seven.
    assert compared(first, second, 100).endswith(f"p = {2 / 2**7:.2f}")


def test_only_seeds_of_both_are_compared():
    assert "1 seeds" in compared({0: 100, 1: 5}, {0: 200, 2: 5}, 800)


def test_what_is_recorded_is_what_the_pages_say():
    said = table(steps_to_return.read(steps_to_return.Path(RECORDED)))
    assert "lunarlander-dqn, relaxed: 8 of 30 runs miss the return" in said
    assert "lunarlander-dqn, reactor: 1 of 30" in said
    assert "lunarlander-ppo, strict: 5 of 10" in said
    assert "lunarlander-ppo, strict, clipped apart: 3 of 10" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give --show, or --workload and --out"),
        (["--out", "x"], "give --show, or --workload and --out"),
        (["--workload", "cartpole-dqn-quick", "--seeds", "3", "--out", "x"], "a first and a last seed"),
        (["--show", "there-is-none"], "there-is-none"),
    ],
)
def test_what_is_refused(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("steps", steps_to_return.main, arguments) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_ends_at_its_budget_or_return_and_repeats():
    workload = msgspec.structs.replace(catalogue.load("cartpole-ppo-zoo"), budget_steps=20_480)
    first, again = (trained(workload, "tianji", "strict", 7, each=False) for _ in range(2))
    assert isinstance(first, Run)
    assert first == again
    assert first.form == "strict"
    assert first.steps is None
    assert 20 < first.best < 450
    assert trained(workload, "tianji", "strict", 7, each=True).form == "strict, clipped apart"
