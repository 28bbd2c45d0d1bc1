"""All disciplines by name. Other packages add theirs by the entry-point group `tianji.disciplines`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from programs.cli import ConfigError
from programs.registry import Registry
from tianji.disciplines.auto import Auto
from tianji.disciplines.discipline import Discipline
from tianji.disciplines.sizes import Facts
from tianji.settings import convert

DISCIPLINES: Registry[type[Discipline]] = Registry(
    "tianji.disciplines",
    {
        "strict": "tianji.disciplines.strict:Strict",
        "relaxed": "tianji.disciplines.relaxed:Relaxed",
        "one-sided": "tianji.disciplines.relaxed:OneSided",
        "quota-free": "tianji.disciplines.quota_free:QuotaFree",
        "free": "tianji.disciplines.free:Free",
        "off": "tianji.disciplines.off:Off",
        "admitted": "tianji.disciplines.admitted:Admitted",
        "admitted-in-order": "tianji.disciplines.admitted:InOrder",
        "admitted-interruptible": "tianji.disciplines.admitted:Interruptible",
        "stream": "tianji.disciplines.stream:Stream",
        "reactor": "tianji.disciplines.reactor:Reactor",
        "periodic": "tianji.disciplines.periodic:Periodic",
        "exactly-one-round": "tianji.disciplines.exactly_one_round:ExactlyOneRound",
        "auto": "tianji.disciplines.auto:Auto",
    },
    "discipline",
)


def table() -> list[str]:
    """Lines of a Markdown table of all disciplines: what each role waits for, and the laws."""
    lines = ["| discipline | an actor waits for | the learner waits for | groups wait for | laws: what always holds |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for name in DISCIPLINES.names():
        kind = DISCIPLINES.get(name)
        waits = " | ".join(kind.waits[who] for who in ("an actor", "the learner", "groups"))
        lines.append(f"| `{name}` | {waits} | {'; '.join(law.text for law in kind.laws)} |")
    return lines


def samples_beside(name: str) -> bool:
    """Whether actors may sample while the learner trains, under the discipline of this name; an unknown one: no."""
    if name not in DISCIPLINES.names():
        return False
    kind = DISCIPLINES.get(name)
    return kind is not Auto and not kind.alternates


def make_discipline(chosen: Mapping[str, Any], facts: Facts) -> Discipline:
    """Make the discipline of a run. Of `auto`, it is the one under which the run begins.

    Parameters
    ----------
    chosen
        its `name` and its options.

    Raises
    ------
    ConfigError
        for an unknown name or option, or a wrong value.
    """
    made = _made(chosen, facts)
    return made.first if isinstance(made, Auto) else made


def chooser(chosen: Mapping[str, Any], facts: Facts) -> Auto | None:
    """What chooses the discipline of a run while it goes on; None: it is given."""
    made = _made(chosen, facts)
    return made if isinstance(made, Auto) else None


def _made(chosen: Mapping[str, Any], facts: Facts) -> Discipline:
    kind = DISCIPLINES.get(chosen["name"])
    options = {name: value for name, value in chosen.items() if name != "name"}
    try:
        return kind(facts, convert(options, kind.Options, "discipline"))
    except ConfigError as error:
        raise ConfigError(f"{error} (of discipline {chosen['name']!r})") from None
