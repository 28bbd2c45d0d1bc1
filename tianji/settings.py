"""What settings are made of: bounded numbers, a base that refuses unknown keys, and plain data checked against it."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

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
        if unknown in (renamed := getattr(section, "renamed", {})):
            return f"{text}: it {renamed[unknown]}"
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
    """The settings type that a message speaks of: `... at `$.a.b`` is the one of field b of field a."""
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
    """Values of a choice; of a choice or a number, also that."""
    for part in get_args(kind):
        if get_origin(part) is Literal:
            yield from get_args(part)
        elif get_origin(part) is Annotated:
            yield f"{get_args(part)[0].__name__} from {get_args(part)[1].ge}"
        else:
            yield part


def _table(kind: Any) -> Any:
    """The settings type of a field, also where it may be absent (`X | None`); the type itself elsewhere."""
    tables = [part for part in get_args(kind) if isinstance(part, type) and issubclass(part, Struct)]
    return tables[0] if tables else kind


def paths(kind: type) -> Iterable[str]:
    """Every key, with the sections that it is in: `ppo.epochs`."""
    for field in msgspec.structs.fields(kind):
        yield field.name
        table = _table(field.type)
        if isinstance(table, type) and issubclass(table, Struct):
            yield from (f"{field.name}.{path}" for path in paths(table))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, or raise `ConfigError` with the line that is wrong."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from None


def assign(data: dict[str, Any], assignment: str) -> None:
    """Apply one `--set a.b=value` to nested plain data; the value is read as TOML, else taken as text."""
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {assignment}: write it as key=value, for instance ppo.learning_rate=3e-4")
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        # TOML wants a digit before the point; people do not.
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
    """Settings with some of them set anew, by dotted key, and checked.

    Raises
    ------
    ConfigError
        for an unknown key or a wrong value.
    """
    data = msgspec.to_builtins(settings)
    for key, value in options.items():
        put(data, key, value)
    return convert(data, type(settings), "options")
