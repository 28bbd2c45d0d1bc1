"""Writes the reference pages from the code: `python docs/hooks/reference.py`. With `--check` it only compares.

`docs/reference/commands.md` comes from the argument parsers, `settings.md` and `workloads.md` from the settings types. The
pages are committed, so that they can be read without a build, and `tests/docs/test_reference.py` fails when they are old.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET
from msgspec.inspect import Field, Metadata, StructType, Type, multi_type_info, type_info

import baselines.__main__
import reports.__main__
import suites.__main__
import tianji.__main__
from baselines.workload import Workload
from tianji.config import TrainConfig
from tianji.disciplines.registry import DISCIPLINES

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
HEAD = "<!-- Written by `python docs/hooks/reference.py` from the code. Do not edit. -->"
PROGRAMS = {
    "python -m tianji": tianji.__main__.parser,
    "python -m suites": suites.__main__.parser,
    "python -m reports": reports.__main__.parser,
    "python -m baselines": baselines.__main__.parser,
}
UNITS = (
    (r"(^|_)steps$|_every_steps$", "steps"),
    (r"seconds$", "s"),
    (r"_rounds$", "rounds"),
    (r"_chunks$|_slots$", "chunks"),
    (r"_threads$", "threads"),
    (r"^(episodes|in_a_row)$", ""),
)
"""By the end of a name."""


def cell(text: str) -> str:
    """Text as one cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A Markdown table."""
    for row in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(cell(part) or '-' for part in row)} |"


# Settings.


def field_docs(kind: type) -> dict[str, str]:
    """The docstring below each field, by name; those of base classes too."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] not in ("tianji", "baselines", "suites"):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for one, after in zip(body.body, [*body.body[1:], None], strict=True):
            if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Name):
                continue
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
                found[one.target.id] = after.value.value
    return found


def unit(name: str) -> str:
    """The unit that a name ends with."""
    return next((unit for pattern, unit in UNITS if re.search(pattern, name)), "")


def with_unit(what: str, of: str) -> str:
    """Values and their unit."""
    return f"{what}; {of}" if of else what


def bounds(kind: Any) -> str:
    """The limits of a number, such as `>= 1`."""
    signs = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
    return " ".join(f"{sign} {getattr(kind, name):g}" for name, sign in signs if getattr(kind, name, None) is not None)


def values(kind: Type) -> str:
    """What a setting may be, in words."""
    if isinstance(kind, Metadata):
        return values(kind.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        parts = [values(part) for part in kind.types if not isinstance(part, msgspec.inspect.NoneType)]
        none = ["none"] * any(isinstance(part, msgspec.inspect.NoneType) for part in kind.types)
        return " or ".join([*(part for part in parts if part), *none])
    if isinstance(kind, msgspec.inspect.LiteralType):
        return ", ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, msgspec.inspect.CustomType):
        return ""  # UNSET: the setting is left out.
    if isinstance(kind, msgspec.inspect.VarTupleType):
        return f"list of {values(kind.item_type)}"
    if isinstance(kind, msgspec.inspect.DictType):
        return "table"
    names = {"IntType": "integer", "FloatType": "number", "BoolType": "`true`, `false`", "StrType": "text"}
    name = names.get(type(kind).__name__, "")
    return f"{name} {bounds(kind)}".strip()


def shown(value: Any) -> str:
    """A default as it would be written with `--set`."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    if isinstance(value, int):
        return f"`{value:_}`"
    return f"`{value}`"


def default(field: Field) -> str:
    """The default of a setting, in words."""
    if field.required:
        return "required"
    if field.default in (UNSET, NODEFAULT):
        return "depends"
    return shown(field.default)


def sections(kind: StructType, prefix: str, about: str) -> Iterator[tuple[str, type, list[tuple[Field, str]], str]]:
    """A settings type and the tables within it, each as its heading, its class, its plain fields with keys, and its purpose."""
    docs = field_docs(kind.cls)
    nested = [(field, found) for field in kind.fields if (found := inner(field.type)) is not None]
    plain = [(field, prefix + field.name) for field in kind.fields if inner(field.type) is None]
    yield prefix.rstrip("."), kind.cls, plain, about
    for field, found in nested:
        yield from sections(found, f"{prefix}{field.name}.", docs.get(field.name, ""))


def inner(kind: Type) -> StructType | None:
    """The table that a field holds, also where it may be left out."""
    if isinstance(kind, StructType):
        return kind
    parts = kind.types if isinstance(kind, msgspec.inspect.UnionType) else ()
    return next((part for part in parts if isinstance(part, StructType)), None)


def said_by(kind: type) -> Iterator[str]:
    """A class docstring as Markdown: a table of reStructuredText stays as it is, in a fence."""
    for part in inspect.cleandoc(kind.__doc__ or "").split("\n\n"):
        if part.startswith("==="):
            yield from ("", "```text", part, "```")
        elif part:
            yield from ("", " ".join(part.split()))


def fields(pairs: Iterable[tuple[Field, str]], docs: dict[str, str], said: dict[str, str] | None = None) -> Iterator[str]:
    """The table of some settings.

    Parameters
    ----------
    said
        settings by their words, of the tables before and then of this one. What was said is not said again.
    """
    heads, rows = ("setting", "what it is", "values, unit", "default"), []
    for f, key in pairs:
        words = docs.get(f.name, "")
        before = said.setdefault(words, key) if said is not None and words else key
        rows.append(
            (f"`{key}`", words if before == key else f"as `{before}`", with_unit(values(f.type), unit(f.name)), default(f))
        )
    yield from table(heads, rows)


def of_type(kind: type, top: str) -> Iterator[str]:
    """Every table of a settings type, a section each."""
    info = type_info(kind)
    assert isinstance(info, StructType)
    said: dict[str, str] = {}
    for name, cls, pairs, about in sections(info, "", ""):
        yield from ("", f"## {f'`{name}`' if name else top}")
        if kind is not TrainConfig and cls.__module__.startswith("tianji."):
            yield from ("", f"{cell(about)} Its keys are those of [`{name}`](settings.md#{name}).".strip())
            continue
        yield from said_by(cls)
        if about:
            yield from ("", cell(about))
        yield ""
        yield from fields(pairs, field_docs(cls), said)


def settings() -> str:
    """The page of all settings of a training run."""
    lines = [
        "# Settings",
        "",
        HEAD,
        "",
        "Every setting of a training run. The key in the first column is what `--set` takes:",
        "`python -m tianji train --env CartPole-v1 --set ppo.learning_rate=1e-3`.",
        "In a file for `--config` a key before the dot is a TOML table.",
        "In Python it is an argument of `tianji.TrainConfig` or of one of the classes below.",
        "",
        "- *depends*: the default follows from other settings. Its row says how.",
        "- *none*: the setting is off. TOML has no word for that, so leave the key out. `discipline.lag_rounds` is the",
        '  exception: leaving it out means `auto`, and without a bound it is `lag_rounds = "none"`.',
        "- The unit *steps* means environment steps, summed over actors unless the row says otherwise.",
        "",
    ]
    lines += of_type(TrainConfig, "The run")
    lines += ["", "## `discipline`", ""]
    lines += [
        "A discipline has a name and options of its own. [Choose a discipline](../howto/discipline.md) says which one to take,",
        "and [Disciplines](../disciplines.md) explains them. With an option the name is required:",
        "`--set discipline.name=relaxed --set discipline.lag_rounds=2`. An option of another discipline is refused:",
        "`strict` refuses `lag_rounds`, because its samples are never behind. Under `auto` the bound of",
        "IMPALA is at least 8 rounds.",
    ]
    for name in DISCIPLINES.names():
        options = DISCIPLINES.get(name).Options
        (info,) = multi_type_info([options])
        assert isinstance(info, StructType)
        lines += ["", f"### `discipline.name={name}`", ""]
        pairs = [(field, f"discipline.{field.name}") for field in info.fields]
        lines += fields(pairs, field_docs(options)) if pairs else ["No options."]
    return "\n".join(lines) + "\n"


def workloads() -> str:
    """The page of what a workload file holds."""
    lines = [
        "# Workload files",
        "",
        HEAD,
        "",
        "A workload is a TOML file that says what every system trains. Those of the project are in `suites/workloads`;",
        "`--workloads` also takes the path of a file of your own. The file's name is the workload's `id` and `.toml`.",
        "[Add an environment](../tutorial/environment.md#compare-systems-on-it) has a small one.",
    ]
    return "\n".join([*lines, *of_type(Workload, "The workload")]) + "\n"


# Commands.


DEFAULT = re.compile(r"\s*\((?:default:? |(?=required\)))([^()]*(?:\([^()]*\)[^()]*)*)\)")
"""The default of an argument, or that it is required, in the words of its help."""


def usage(action: argparse.Action) -> str:
    """An argument as it is typed."""
    among = "|".join(map(str, action.choices)) if action.choices and action.metavar is None else ""
    name = "" if action.dest == argparse.SUPPRESS else action.dest.upper()
    value = "" if action.nargs == 0 else action.metavar or among or name
    value = " ".join(value) if isinstance(value, tuple) else value
    return f"`{' '.join([*action.option_strings[-1:], *filter(None, [value])])}`"


def meaning(parser: argparse.ArgumentParser, action: argparse.Action, program: str) -> tuple[str, str]:
    """What an argument is, and its default."""
    words = parser._get_formatter()._expand_help(action) if action.help else ""
    said = DEFAULT.search(words)
    words = DEFAULT.sub("", words)
    if action.choices and not all(str(choice) in f"{words} {usage(action)}" for choice in action.choices):
        words += f"; one of {', '.join(map(str, action.choices))}"
    usual = "" if action.default in (None, [], argparse.SUPPRESS) else shown(action.default)
    if program == "python -m tianji train" and action.dest in (settings := field_docs(TrainConfig)):
        words = f"{words or settings[action.dest].rstrip('.')} (setting [`{action.dest}`](settings.md#the-run))"
    if action.required:
        return words, "required"
    return words, "off" if action.nargs == 0 else said[1] if said else usual


def commands_of(program: str, parser: argparse.ArgumentParser, about: str = "") -> Iterator[str]:
    """A command and the commands below it, a section each."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    own = [a for a in parser._actions if a not in below and a.dest not in ("help", "version") and a.help != argparse.SUPPRESS]
    words = about or parser.description or ""
    yield from ("", f"{'##' if below else '###'} `{program}`", "", f"{words[:1].upper()}{words[1:].rstrip('.')}.")
    if own:
        yield ""
        yield from table(("argument", "what it is", "default"), ((usage(a), *meaning(parser, a, program)) for a in own))
    for action in below:
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, one in action.choices.items():
            yield from commands_of(f"{program} {name}", one, helps.get(name, ""))


def sessions() -> Iterator[tuple[str, str]]:
    """The sessions of the noxfile, and the first line of what each says of itself."""
    for node in ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and any("session" in ast.unparse(mark) for mark in node.decorator_list):
            yield f"`nox -s {node.name}`", (ast.get_docstring(node) or "").split("\n\n")[0]


def commands() -> str:
    """The page of all commands."""
    lines = [
        "# Commands",
        "",
        HEAD,
        "",
        "Each command also prints this with `--help`. After installation `python -m tianji`, `python -m suites` and",
        "`python -m reports` are also called `tianji`, `tianji-bench` and `tianji-report`.",
        "",
        "Exit status: 0 done, 1 something failed or is worse, 2 unusable input, 130 interrupted.",
        "For unusable input one line on stderr says what is wrong.",
    ]
    for program, parser in PROGRAMS.items():
        lines += commands_of(program, parser())
    lines += ["", "## `nox`", "", "Run in a checkout. Each session installs what it needs into an environment of its own.", ""]
    lines += table(("command", "what it does"), sessions())
    return "\n".join(lines) + "\n"


PAGES = {"commands.md": commands, "settings.md": settings, "workloads.md": workloads}


def main() -> int:
    """Write the pages, or say which are out of date."""
    options = argparse.ArgumentParser(description="Write the reference pages from the code.")
    options.add_argument("--check", action="store_true", help="change nothing; exit status 1 where a page is out of date")
    check = options.parse_args().check
    old = [name for name, page in PAGES.items() if not (FOLDER / name).is_file() or (FOLDER / name).read_text() != page()]
    for name in old:
        if check:
            print(f"docs/reference/{name} is out of date; python docs/hooks/reference.py writes it", file=sys.stderr)
        else:
            (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
            print(f"written: docs/reference/{name}")
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main())
