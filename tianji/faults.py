"""Faults that end a run because a restart would fail again, and exceptions as one line."""

from __future__ import annotations

import traceback
from pathlib import Path


class NotFinite(Exception):
    """Samples or weights are not finite, which training on or a restart would only spread."""


class Misshapen(Exception):
    """An environment returned an observation whose shape differs from that of its space."""


class EnvironmentFailed(Exception):
    """An environment raised. The text names the environment, the call and the cause."""


LASTING = (NotFinite, Misshapen)
"""Faults after which no role is restarted."""


def told(error: BaseException) -> str:
    """An exception in one line: type, text, and where it was raised."""
    text = " ".join(str(error).split())
    if isinstance(error, (*LASTING, EnvironmentFailed)):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


class Unknown(Exception):
    """Error: an environment cannot give its state, or a state is not one of such an environment."""
