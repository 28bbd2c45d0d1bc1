"""Every command on every page is known to its parser: in blocks as a whole, in sentences by its options."""

import ast
import itertools
import re
import shlex

import pytest
from pages import ROOT, blocks

import baselines.__main__
import reports.__main__
import suites.__main__
import tianji.__main__
from tianji.config import TrainConfig
from tianji.settings import paths

PARSERS = {
    "tianji": tianji.__main__.parser,
    "suites": suites.__main__.parser,
    "reports": reports.__main__.parser,
    "baselines": baselines.__main__.parser,
}
SCRIPTS = {"tianji": "tianji", "tianji-bench": "suites", "tianji-report": "reports"}
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md", ROOT / "results" / "README.md"]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def words(command):
    """A command's words, without what the shell makes of them; None where it is none of ours."""
    try:
        parts = shlex.split(command, comments=True)
    except ValueError:
        return None
    while parts and re.fullmatch(r"\w+=.*", parts[0]):
        parts = parts[1:]
    if not parts:
        return None
    name = parts[0].rpartition("/")[2]
    if re.fullmatch(r"python3?", name) and parts[1:2] == ["-m"] and parts[2:3] and parts[2] in PARSERS:
        return [parts[2], *parts[3:]]
    if name == "nox":
        return ["nox", *parts[1:]]
    return [SCRIPTS[name], *parts[1:]] if name in SCRIPTS else None


def in_blocks(text):
    """Our commands in the shell blocks of a page."""
    for block in blocks(text):
        if block.kind not in ("sh", "console"):
            continue
        lines = block.text.replace("\\\n", " ").splitlines()
        if block.kind == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        for line in lines:
            for command in re.split(r"&&|;|\s\|\s|>>?", line):
                if (found := words(command)) is not None:
                    yield found, block.note == "fails"


def in_sentences(text):
    """Our commands in code within a line."""
    outside = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    for span in SPAN.findall(outside):
        if (found := words(span)) is not None and len(found) > 1:
            yield found


def below(parser, arguments):
    """The parser of a command and the rest of its arguments."""
    for action in parser._actions:
        if isinstance(action.choices, dict) and arguments and arguments[0] in action.choices:
            return below(action.choices[arguments[0]], arguments[1:])
    return parser, arguments


def nox_sessions():
    tree = ast.parse((ROOT / "noxfile.py").read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list}


def check_settings(arguments):
    """Keys that `--set` names are settings."""
    for option, value in itertools.pairwise(arguments):
        if option == "--set" and value != "KEY=VALUE":
            key = value.partition("=")[0]
            assert key in set(paths(TrainConfig)) or key.startswith("discipline."), f"--set {value}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_in_blocks_parse(page, capsys):
    for (program, *arguments), wrong in in_blocks(page.read_text()):
        if program == "nox":
            assert arguments[:1] == ["-s"]
            assert arguments[1] in nox_sessions(), arguments
            continue
        if wrong or arguments == ["--version"]:
            continue
        try:
            PARSERS[program]().parse_args(arguments)
        except SystemExit:
            pytest.fail(f"{program} {shlex.join(arguments)}: {capsys.readouterr().err}")
        check_settings(arguments)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_in_sentences_name_what_there_is(page):
    for program, *arguments in in_sentences(page.read_text()):
        told = f"{program} {shlex.join(arguments)}"
        if program == "nox":
            assert arguments[:1] != ["-s"] or arguments[1] in nox_sessions() | {"NAME"}, told
            continue
        if arguments[0].startswith("-") or arguments[0] in ("...", "COMMAND") or "|" in arguments[0]:
            continue
        # What follows a bare `--` is somebody else's command.
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        parser, rest = below(PARSERS[program](), own)
        assert rest != own, f"{told}: there is no such command"
        options = {name for action in parser._actions for name in action.option_strings}
        assert {part.partition("=")[0] for part in rest if part.startswith("--")} <= options, told
        check_settings(rest)


def test_a_command_that_does_not_exist_is_found():
    """So that the tests above fail if a page is wrong."""
    text = "```sh\nX=1 python -m tianji train --env A --stepps 3  # why\n```\n`tianji fly`, `python -m suites run a --outt b`"
    (((program, *arguments), wrong),) = in_blocks(text)
    assert (program, arguments[-2:], wrong) == ("tianji", ["--stepps", "3"], False)
    with pytest.raises(SystemExit):
        PARSERS[program]().parse_args(arguments)
    assert list(in_sentences(text)) == [["tianji", "fly"], ["suites", "run", "a", "--outt", "b"]]
