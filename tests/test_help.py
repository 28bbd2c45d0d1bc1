"""Every command's `--help`: each argument is explained, and its default is told."""

import argparse
import importlib

import msgspec
import pytest

from tianji.__main__ import parser as tianji
from tianji.commands.settings import NAMED
from tianji.config import TrainConfig

COMMANDS = ("tianji.__main__", "suites.__main__", "reports.__main__", "baselines.__main__")
BENCHMARKS = ("efficiency.__main__", "fuzz.__main__", "gate.trials", "channel", "from_launch", "agreement")


class Caught(Exception):
    """Carries the parser that a program was about to use."""


def parsers():
    """The parsers of all commands."""
    yield from (importlib.import_module(name).parser() for name in COMMANDS)


def parser_of(name, monkeypatch):
    """The parser of a benchmark, which it makes when it starts."""

    def caught(parser, arguments=None, namespace=None):
        raise Caught(parser)

    module = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", caught)
    with pytest.raises(Caught) as found:
        module.main() if name in ("channel", "agreement") else module.main([])
    return found.value.args[0]


def walk(parser, path):
    """Every argument of a parser and of its sub-commands, with the command that it belongs to."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            about = {choice.dest: choice.help for choice in action._choices_actions}
            for name, below in action.choices.items():
                assert about.get(name), f"{path} {name}: its command's list says nothing of it"
                yield from walk(below, f"{path} {name}")
        else:
            yield f"{path} {action.option_strings or action.dest}", parser, action


def faults(parser):
    """What the help of a parser lacks."""
    for place, own, action in walk(parser, parser.prog):
        if action.help is argparse.SUPPRESS:
            continue
        if not action.help:
            yield f"{place}: no help"
        elif action.default not in (None, False, [], argparse.SUPPRESS):
            said = own._get_formatter()._expand_help(action)
            if f"(default: {action.default})" not in said:
                yield f"{place}: its help does not say its default, {action.default}"


def test_commands_explain_every_argument():
    assert [fault for parser in parsers() for fault in faults(parser)] == []


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_explain_every_argument(name, monkeypatch):
    assert list(faults(parser_of(name, monkeypatch))) == []


def test_a_fault_is_found():
    parser = argparse.ArgumentParser(prog="x")
    parser.add_argument("--silent")
    parser.add_argument("--number", default=3, help="a number")
    parser.add_argument("--told", default=3, help="a number (default: %(default)s)")
    assert [fault.split(":")[0] for fault in faults(parser)] == ["x ['--silent']", "x ['--number']"]


def test_options_of_settings_have_the_names_choices_and_defaults_of_settings():
    train = next(a for a in tianji()._actions if isinstance(a, argparse._SubParsersAction)).choices["train"]
    options = {action.dest: action for action in train._actions}
    fields = {field.name: field for field in msgspec.structs.fields(TrainConfig)}
    for name in NAMED:
        assert options[name].option_strings == ["--" + name.replace("_", "-")]
        assert name in fields
    assert options["algo"].choices == ("ppo", "dqn", "impala", "sac", "td3")
    assert options["device"].choices == ("cpu", "cuda")
    for name in ("groups", "seed", "stop_steps", "device", "world", "launcher", "ray_address"):
        assert f"(default: {fields[name].default})" in options[name].help.replace(",", "")
    assert "at least 1" in options["groups"].help
    assert "above 0" in options["stop_seconds"].help
