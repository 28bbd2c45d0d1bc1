"""Disciplines by name, those of other packages too: what docs/disciplines.md shows is so."""

import re

import pytest
from commands import refusal
from elsewhere import ROOT
from guests import install

from programs.cli import ConfigError, run
from tianji.__main__ import main
from tianji.config import TrainConfig
from tianji.disciplines.registry import table

TEXT = (ROOT / "docs" / "disciplines.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_table_of_the_document_is_what_disciplines_say(capsys):
    assert "\n".join(["<!-- disciplines -->", *table(), "<!-- end -->"]) in TEXT
    assert run("tianji", main, ["disciplines"]) == 0
    assert capsys.readouterr().out.splitlines() == table()


@pytest.mark.long(why="every rule in many orders of events")
def test_a_discipline_of_another_package_is_found_and_keeps_its_laws(tmp_path, monkeypatch, capsys):
    rule, check = BLOCKS
    install(tmp_path, monkeypatch, "tianji.disciplines", "my_rules", rule, ("Ahead",))
    assert any(line.startswith("| `ahead` |") for line in table())
    check = check.replace("range(20)", "range(6)")
    exec(check, {})
    assert capsys.readouterr().out == ""
    # And a law that it does not keep is seen to be broken.
    (tmp_path / "my_rules.py").write_text(rule)
    exec(check.replace("config.rule.laws", "[__import__('tianji.disciplines.laws').disciplines.laws.lag_at_most(1)]"), {})
    assert "is 2 rounds old" in capsys.readouterr().out


def test_unknown_names_and_options_are_one_line(capsys):
    said = refusal(capsys, run, "tianji", main, ["train", "--env", "CartPole-v1", "--set", "discipline=strictly"])
    assert (
        "did you mean strict? known: admitted, admitted-in-order, admitted-interruptible, auto, exactly-one-round, free, "
        in said
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"discipline": "exactly-one-round", "chunk_slots": 1}, "raise it to 2"),
        ({"discipline": "exactly-one-round", "batch_chunks": 2}, "passes chunks on one by one"),
        ({"discipline": "strict", "actors": 3, "batch_chunks": 2}, "leave it out"),
    ],
)
def test_what_a_discipline_cannot_be_had_with_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig(env="CartPole-v1", **settings).rule.check()
