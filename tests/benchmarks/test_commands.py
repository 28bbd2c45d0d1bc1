"""Trials of the gate for any project: what is planted, how they are counted, and that the page says what was recorded."""

from pathlib import Path

import numpy as np
import pytest
from commands import refusal

from benchmarks.gate import commands, trials
from gate.session import Session
from programs.cli import ConfigError, run
from suites.statistics import comparison
from suites.statistics.comparison import Comparison, Metric, Round

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "results" / "reference" / "gate-commands.parquet"
PAGE = (ROOT / "docs" / "ci.md").read_text()


def made(planted, slower, seed):
    """A comparison of four rounds, whose numbers are drawn."""
    rng = np.random.default_rng(seed)
    environment = {"cpu_usable": 2, "cpu_model": "a processor"}
    values = [(0.005 * rng.lognormal(0, 0.005), 0.005 * slower * rng.lognormal(0, 0.005)) for _ in range(4)]
    return Comparison(
        environments={"base": environment, "head": environment},
        metrics=(Metric("loop", "loop", "s", "lower", {}),),
        rounds=tuple(Round(n, "base", {"loop": [pair]}, 1.0) for n, pair in enumerate(values)),
        planted=planted,
    )


@pytest.fixture
def recorded(tmp_path):
    """Two trials with nothing planted and one that is slower."""
    for name, planted, slower in (("a", None, 1.0), ("b", None, 1.0), ("c", "slower", 1.1)):
        (tmp_path / "out" / name).mkdir(parents=True)
        comparison.write(made(planted, slower, ord(name)), tmp_path / "out" / name)
    return tmp_path / "out"


def call(*arguments):
    return run("commands", commands.main, [*map(str, arguments)])


def test_trials_are_counted_sealed_and_written_into_a_document(recorded, tmp_path, capsys):
    sealed, page = tmp_path / "sealed.parquet", tmp_path / "page.md"
    assert call("--out", recorded, "--each", 0, "--seal", sealed) == 0
    said = capsys.readouterr().out
    assert "nothing: 0 of 2 called worse" in said
    assert "slower: 1 of 1 found" in said
    page.write_text(f"before\n{commands.BEGIN}\nof old\n{commands.END}\nafter\n")
    assert call("--show", sealed, "--document", page) == 0
    text = page.read_text()
    assert text.startswith(f"before\n{commands.BEGIN}\nMeasured on 2 cores of a processor:")
    assert text.endswith(f"```\n{commands.END}\nafter\n")
    assert said.strip() in text
    assert "of old" not in text
    call("--show", sealed, "--document", page)
    assert page.read_text() == text, "a second time changes nothing"


@pytest.mark.parametrize("name", list(commands.kinds()))
def test_a_slower_head_does_ten_per_cent_more_work(tmp_path, monkeypatch, name):
    monkeypatch.setattr(Session, "run", lambda self: self)
    commands.trial(name, tmp_path / "trial")
    loops = commands.kinds()[name].loops
    texts = {side: (tmp_path / "trial" / side / "program").read_text() for side in ("base", "head")}
    assert str(loops) in texts["base"]
    more = round(loops * 1.1) if name.startswith("slower") else loops
    assert texts["head"] == texts["base"].replace(str(loops), str(more))


def test_the_page_says_what_was_recorded_or_nothing():
    inside = PAGE.partition(commands.BEGIN)[2].partition(commands.END)[0]
    if RECORDED.exists():
        found = trials.recorded(RECORDED)
        assert commands.told(found) in inside
        assert {name: len(found[name]) for name in commands.kinds()} == {
            name: kind.each for name, kind in commands.kinds().items()
        }
    else:
        assert inside.strip() == ""


def test_bad_arguments_are_refused_in_one_line(recorded, tmp_path, capsys):
    (tmp_path / "there").write_text("")
    for arguments, says in (
        ((), "give one of --out and --show"),
        (("--show", recorded, "--seal", "x"), "needs --out"),
        (("--out", recorded, "--seal", tmp_path / "there"), "exists; name a new file"),
        (("--out", recorded, "--document", "x"), "--document needs --show"),
        (("--out", recorded, "--kinds", "everything"), "unknown kind 'everything'"),
        (("--show", recorded, "--document", tmp_path / "there"), "the document needs one line"),
    ):
        assert says in refusal(capsys, call, *arguments)
    with pytest.raises(ConfigError):
        commands.documented(f"{commands.BEGIN}{commands.BEGIN}{commands.END}", {}, "")
