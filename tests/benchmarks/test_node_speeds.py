"""How steady emulated nodes are: its sums, and what it refuses."""

import pytest

from benchmarks import node_speeds
from programs.cli import ConfigError


def test_a_row_has_the_scatter_and_the_largest_step():
    # 90, 110, 100: a standard deviation of 10, and steps of 22 % up and 9 % down.
    assert node_speeds.line(8, [90.0, 110.0, 100.0]) == "| 8 | 100 | 10.0% | 22.2% |"


def test_every_turn_is_a_row(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(node_speeds, "unavailable", lambda name: None)
    monkeypatch.setattr(node_speeds, "readings", lambda *what: asked.append(what) or [1.0, 2.0])
    assert node_speeds.main(["--readings", "2", "--turns", "2", "--nodes", "1"]) == 0
    assert asked == [(1, 2)] * 2
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize("arguments", [["--readings", "1"], ["--turns", "0"], ["--nodes", "9"]])
def test_wrong_input_is_one_line(arguments):
    with pytest.raises(ConfigError, match="at least two readings"):
        node_speeds.main(arguments)


def test_where_nodes_cannot_be_emulated_it_says_why(monkeypatch):
    monkeypatch.setattr(node_speeds, "unavailable", lambda name: "it needs root")
    with pytest.raises(ConfigError, match="it needs root"):
        node_speeds.main([])
