"""`tianji-bench against` as a user calls it."""

import sys

import pytest
from commands import refusal

from programs.cli import run
from suites.__main__ import main
from suites.records import machine
from suites.statistics import comparison


def against(tmp_path, **more):
    options = {"base-python": sys.executable, "base-tree": str(machine.ROOT), "out": str(tmp_path / "out"), **more}
    return ["against", *(f"--{name}={value}" for name, value in options.items())]


@pytest.mark.long(why="parts are measured for a while")
def test_this_revision_against_its_own_tree(tmp_path, capsys):
    assert run("tianji-bench", main, against(tmp_path, parts="weights-shm", most="3", size="0.9")) == 0
    assert f"comparison: {tmp_path / 'out'}" in capsys.readouterr().out
    found = comparison.read(tmp_path / "out")
    assert (found.looks, found.size, len(found.rounds)) == ((3,), 0.9, 3)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"base-python": "/nowhere/python"}, "--base-python /nowhere/python: there is no such file"),
        ({"base-tree": "/nowhere"}, "--base-tree /nowhere: there is no such folder"),
        ({"most": "2"}, "give rising numbers of rounds, the first 3 or more"),
        ({"size": "7"}, "give a share between 0 and 1"),
    ],
)
def test_bad_input_is_refused_in_one_line_and_nothing_is_made(tmp_path, capsys, more, says):
    assert says in refusal(capsys, run, "tianji-bench", main, against(tmp_path, **more))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("kept")
    assert "exists; name a new folder" in refusal(capsys, run, "tianji-bench", main, against(tmp_path))
    assert (tmp_path / "out" / "precious").read_text() == "kept"


def test_an_unknown_part_and_a_revision_without_parts_fail_in_one_line(tmp_path, capsys):
    assert run("tianji-bench", main, against(tmp_path, parts="flight")) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "unknown part 'flight'; known: sampling" in err
    (tmp_path / "old").mkdir()
    assert (
        run("tianji-bench", main, against(tmp_path, **{"base-tree": str(tmp_path / "old"), "out": str(tmp_path / "o2")})) == 1
    )
    assert capsys.readouterr().err.startswith("tianji-bench: the base: its interpreter runs ")
