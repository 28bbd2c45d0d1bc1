"""All testbeds by name."""

from __future__ import annotations

from importlib.util import find_spec
from typing import get_args

from programs.cli import ConfigError
from suites.testbed import emulation
from suites.testbed.base import Name, Shape, Testbed
from suites.testbed.emulation import Emulated
from suites.testbed.loopback import Local
from suites.testbed.raycluster import RayCluster

TESTBEDS: dict[Name, type[Testbed]] = {"local": Local, "netns": Emulated, "ray": RayCluster}


def open_testbed(name: str, shape: Shape) -> Testbed:
    """A testbed that is not set up yet.

    Raises
    ------
    ConfigError
        when there is none of that name.
    """
    for known, kind in TESTBEDS.items():
        if known == name:
            return kind(shape)
    raise ConfigError(f"unknown testbed {name!r}; known: {', '.join(get_args(Name))}")


def unavailable(name: str) -> str | None:
    """Why a testbed cannot be had here, in a few words; None: it can, as far as can be seen beforehand."""
    if name == "netns":
        return emulation.unavailable()
    if name == "ray" and find_spec("ray") is None:
        return "ray is not installed"
    return None
