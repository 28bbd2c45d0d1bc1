"""Turns and rounds: who runs when, what a round's number is, and what changes in between."""

import pytest
from toy_repositories import line

from gate.execution import CommandFailed
from gate.metrics import Source
from gate.session import Measurement, Session, _beginners
from suites.statistics import comparison
from suites.statistics.gate import Rule

RULE = Rule(looks=(3,))


def session(tmp_path, script, *, rule=RULE, turns=1, warm_ups=1):
    folders = {side: tmp_path / side for side in ("base", "head")}
    for folder in (*folders.values(), tmp_path / "out"):
        folder.mkdir()
    environment = {"cpu_usable": 2, "cpu_model": "x"}
    said = []
    measurement = Measurement(["sh", "-c", script], Source(), 30.0, warm_ups, turns)
    made = Session(folders, dict.fromkeys(folders, environment), measurement, rule, tmp_path / "out", say=said.append)
    return made, said


def test_each_side_begins_one_of_every_two_rounds_in_an_order_that_is_drawn():
    order = _beginners(100)
    assert all({first, second} == {"base", "head"} for first, second in zip(order[::2], order[1::2], strict=True))
    assert 10 < sum(one == "base" for one in order[::2]) < 40


def test_within_a_round_the_sides_take_turns(tmp_path):
    script = f"basename $PWD >> ../order; echo '{line()}'"
    made, said = session(tmp_path, script, turns=3)
    found = made.run()
    order = (tmp_path / "order").read_text().split()
    assert order[:2] == ["base", "head"], "warm-ups"
    for one, runs in zip(found.rounds, (order[2:8], order[8:14], order[14:]), strict=True):
        other = {"base": "head", "head": "base"}[one.first]
        assert runs == [one.first, other, other, one.first, one.first, other]
    assert said == ["each round runs the command 3 times on either side", "3 rounds: nothing is worse"]
    assert comparison.read(tmp_path / "out") == found


def test_a_round_counts_by_the_median_of_its_turns_and_warm_ups_do_not_count(tmp_path):
    """Warm-ups print 100; then the head's values are 1, 9 and 2 in each round, those of the base are 1."""
    script = f"""
        echo x >> runs; number=$(wc -l < runs)
        value=1
        if [ $number -eq 1 ]; then value=100
        elif [ $(basename $PWD) = head ]; then case $((number % 3)) in 0) value=9;; 1) value=2;; esac; fi
        echo '{line()}' | sed "s/1.0/$value/"
    """
    found = session(tmp_path, script, turns=3)[0].run()
    assert found.rounds[0].pairs["latency"] == [(1.0, 1.0), (1.0, 9.0), (1.0, 2.0)]
    assert found.worsenings()["latency"] == pytest.approx([0.6931] * 3, abs=1e-4)


def test_short_commands_run_several_times_a_round(tmp_path):
    made, said = session(tmp_path, f"echo '{line()}'", turns=None)
    made.run()
    assert said[0] == "each round runs the command 10 times on either side"


def test_metrics_of_one_side_or_of_two_kinds_are_left_out_by_name(tmp_path):
    lines = {"base": [line(), line("old"), line("changed", unit="ms")], "head": [line(), line("new"), line("changed")]}
    made, said = session(tmp_path, "cat told")
    for side, told in lines.items():
        (tmp_path / side / "told").write_text("\n".join(told))
    found = made.run()
    assert [metric.name for metric in found.metrics] == ["latency"]
    assert found.left_out == {
        "new": "only the head reports it",
        "changed": "unit or direction is not the same on both sides",
        "old": "only the base reports it",
    }
    assert "not compared: old: only the base reports it" in said


@pytest.mark.parametrize(
    ("later", "says"),
    [
        (line("other"), "reported 'latency' in its first run, but not in a later one"),
        (line(better="higher"), "changed unit or direction of 'latency'"),
    ],
)
def test_a_metric_that_changes_between_runs_is_refused(tmp_path, later, says):
    script = f"echo x >> runs; if [ $(wc -l < runs) -lt 3 ]; then echo '{line()}'; else echo '{later}'; fi"
    with pytest.raises(CommandFailed, match=says):
        session(tmp_path, script)[0].run()
