"""Building blocks of settings: bounded numbers, a base class that refuses unknown keys, and the checks of plain data."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from programs.cli import ConfigError

T = TypeVar("T")

Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
PositiveFloat = Annotated[float, Meta(gt=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0, le=3600)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all configuration: immutable, keyword-only, and an unknown key is an error."""


S = TypeVar("S", bound=Settings)


def convert(data: Mapping[str, Any], kind: type[T], where: str) -> T:
    """Check plain data against a settings type.

    Raises
    ------
    ConfigError
        naming the key, what is wrong with it and, for an unknown key, the nearest known one.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {_explain(str(error), kind)}") from error


def _explain(message: str, kind: type) -> str:
    """Turn msgspec's `Object contains unknown field `x` - at `$.ppo`` into a line with a suggestion."""
    text = message.replace("Object contains unknown field", "unknown key").replace(
        "Object missing required field", "missing key"
    )
    text = text.replace(" - at `$.", " in `").replace(" - at `$", " at `")
    if message.startswith("Invalid enum value"):
        return f"{text}; known: {', '.join(map(str, _choices(kind, message)))}"
    if "unknown key" in text:
        unknown = message.split("`")[1]
        section = _at(kind, message)
        own = sorted(field.name for field in msgspec.structs.fields(section))
        # The key may be right and its section wrong, or left out.
        elsewhere: dict[str, str] = {}
        for path in paths(kind):
            elsewhere.setdefault(path.rpartition(".")[2], path)
        if near := difflib.get_close_matches(unknown, own, n=1):
            text += f"; did you mean `{near[0]}`?"
        elif near := difflib.get_close_matches(unknown, elsewhere, n=1):
            text += f"; did you mean `{elsewhere[near[0]]}`?"
        else:
            text += f"; known keys: {', '.join(own)}"
    return text


def _at(kind: Any, message: str) -> Any:
    """The settings type to which a message refers: for `... at `$.a.b``, the type of field b of field a."""
    _, _, path = message.partition(" - at `$")
    for name in path.strip("`").strip(".").split("."):
        if name:
            kind = next(field.type for field in msgspec.structs.fields(_table(kind)) if field.name == name)
    return _table(kind)


def _choices(kind: Any, message: str) -> Iterable[Any]:
    """Values that the field named in a message (`... at `$.a.b``) may have."""
    for name in message.rpartition("$.")[2].rstrip("`").split("."):
        kind = next(field.type for field in msgspec.structs.fields(_table(kind)) if field.name == name)
    return _values(kind)


def _values(kind: Any) -> Iterable[Any]:
    """Allowed values of a field: those of a choice, and the range of a number."""
    for part in get_args(kind):
        if get_origin(part) is Literal:
            yield from get_args(part)
        elif get_origin(part) is Annotated:
            yield f"{get_args(part)[0].__name__} from {get_args(part)[1].ge}"
        else:
            yield part


class Constraint(Struct, frozen=True):
    """What the values of a setting may be."""

    kind: type
    choices: tuple[str, ...]
    """All values of a setting that has few; empty for others."""
    bounds: str
    """The range of a number in words; empty where any number will do."""


def constraint(settings: type, name: str) -> Constraint:
    """What the values of one setting may be; of an optional one, beside None."""
    found = next(field.type for field in msgspec.structs.fields(settings) if field.name == name)
    part = get_args(found)[0] if get_origin(found) in (Union, UnionType) else found
    if get_origin(part) is Literal:
        return Constraint(str, get_args(part), "")
    kind, meta = get_args(part)[:2] if get_origin(part) is Annotated else (part, Meta())
    bounds = "" if meta.ge is None else f"at least {meta.ge}"
    bounds = bounds if meta.gt is None else f"above {meta.gt}"
    return Constraint(kind, (), bounds if meta.le is None else f"{bounds}, at most {meta.le}")


def _table(kind: Any) -> Any:
    """The settings type of a field, also of an optional one (`X | None`). Any other type is returned as it is."""
    tables = [part for part in get_args(kind) if isinstance(part, type) and issubclass(part, Struct)]
    return tables[0] if tables else kind


def paths(kind: type) -> Iterable[str]:
    """Every key with the names of its sections, for instance `ppo.epochs`."""
    for field in msgspec.structs.fields(kind):
        yield field.name
        table = _table(field.type)
        if isinstance(table, type) and issubclass(table, Struct):
            yield from (f"{field.name}.{path}" for path in paths(table))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. `ConfigError` names the line that is wrong."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from None


def assign(data: dict[str, Any], assignment: str) -> None:
    """Apply one `--set a.b=value` to nested plain data. A value that is not valid TOML is taken as text."""
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {assignment}: write it as key=value, for instance ppo.learning_rate=3e-4")
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        # TOML requires a digit before the point; users leave it out.
        value = float(text) if re.fullmatch(r"[+-]?\.\d+(e[+-]?\d+)?", text, re.IGNORECASE) else text
    put(data, key.strip(), value)


def put(data: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key of nested plain data.

    Raises
    ------
    ConfigError
        when a part before the last one is a value.
    """
    *path, last = key.split(".")
    for name in path:
        data = data.setdefault(name, {})
        if not isinstance(data, dict):
            raise ConfigError(f"{key}={value}: `{name}` holds a value, not a table")
    data[last] = value


def replaced(settings: S, options: Mapping[str, Any]) -> S:
    """A checked copy of settings with some values replaced, by dotted key.

    Raises
    ------
    ConfigError
        for an unknown key or a wrong value.
    """
    data = msgspec.to_builtins(settings)
    for key, value in options.items():
        put(data, key, value)
    return convert(data, type(settings), "options")
