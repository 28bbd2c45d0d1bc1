"""Describes an environment in a process of its own: what it does there cannot hurt the launcher.

A process that runs `python -m tianji.environments.probe` reads a `Question` from standard input. It writes an `Answer`, a line
of JSON, before each call into the environment, and one at the end.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO

import msgspec
from msgspec import Struct

from programs.cli import ConfigError
from programs.process import die_with_parent, name_process
from tianji import held
from tianji.config import AtariConfig, EnvironmentConfig, SimulatorConfig
from tianji.environments.description import EnvDescription

PATIENCE_S = 10.0
"""Seconds after which a call that has not returned is told of."""
IMPORT, IMPORT_LIMIT_S = "import", 120.0
"""What comes before the first call, and the seconds that it may take."""
PARTING_S = 1.0
"""Seconds that the process may take to close the environment."""


class Question(Struct, frozen=True):
    """The environment to describe; see `tianji.environments.forms.described`."""

    env_id: str
    games: AtariConfig
    simulator: SimulatorConfig | None
    settings: EnvironmentConfig
    lanes: int
    parent: int
    import_path: tuple[str, ...]


class Answer(Struct, frozen=True):
    """What came of it: a description, or why there is none. `doing` alone names the call that begins."""

    description: EnvDescription | None = None
    refusal: str | None = None
    doing: str | None = None


def describe_apart(
    env_id: str,
    games: AtariConfig,
    simulator: SimulatorConfig | None,
    limit_s: float | None,
    tell: Callable[[str], object] = lambda text: None,
    settings: EnvironmentConfig | None = None,
    lanes: int = 1,
) -> EnvDescription:
    """Describe an environment in a process of its own.

    Parameters
    ----------
    limit_s
        seconds that each call into the environment may take. None: any.
    tell
        is told in one line of a call that takes long.
    lanes
        environments of an actor.

    Raises
    ------
    ConfigError
        as `describe` raises it, and if the process ends or a call does not return in time.
    """
    settings, path = settings or EnvironmentConfig(), tuple(map(str, sys.path))
    question = Question(env_id, games, simulator, settings, lanes, os.getpid(), path)
    inherits, variables = held.inherited(env_id)
    with subprocess.Popen(
        [sys.executable, "-m", "tianji.environments.probe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **variables},
        pass_fds=inherits,
    ) as process:
        for descriptor in inherits:
            os.close(descriptor)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(question))
            process.stdin.close()
            answer = _answer(process.stdout, env_id, limit_s, tell)
            status = process.wait(PARTING_S)
        except BrokenPipeError:
            answer, status = Answer(doing=IMPORT), process.wait()
        except subprocess.TimeoutExpired:
            status = None  # It has said everything.
        finally:
            process.kill()
    if answer.doing is not None:
        raise ConfigError(f"environment {env_id}: its {answer.doing} ended the process, with status {status}")
    if answer.description is None:
        raise ConfigError(answer.refusal or "")
    return answer.description


def _answer(pipe: IO[bytes], env_id: str, limit_s: float | None, tell: Callable[[str], object]) -> Answer:
    """The last answer of the process. If it ended before, it says what it was doing."""
    text, doing, since, told = b"", IMPORT, time.monotonic(), False
    while True:
        most_s = IMPORT_LIMIT_S if doing == IMPORT else limit_s
        until = min(math.inf if told else PATIENCE_S, math.inf if most_s is None else most_s)
        left = None if until == math.inf else max(0.0, since + until - time.monotonic())
        if not select.select([pipe], [], [], left)[0]:
            passed = time.monotonic() - since
            where = f"environment {env_id}: its {doing}"
            if most_s is not None and passed >= most_s:
                raise ConfigError(f"{where} did not return within {most_s:g} s{_hint(doing)}")
            if passed >= PATIENCE_S:
                told = True
                tell(f"{where} has not returned for {passed:.0f} s")
            continue
        part = os.read(pipe.fileno(), 1 << 16)
        if not part:
            return Answer(doing=doing)
        text += part
        while b"\n" in text:
            line, _, text = text.partition(b"\n")
            answer = msgspec.json.decode(line, type=Answer)
            if answer.doing is None:
                return answer
            doing, since, told = answer.doing, time.monotonic(), False


def _hint(doing: str) -> str:
    return "" if doing == IMPORT else "; raise silence_seconds if it takes that long"


def main() -> int:
    """Answer the question on standard input."""
    # Whatever the environment prints goes to standard error.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    sys.path[:] = question.import_path
    die_with_parent(question.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name_process("tj-probe")

    def say(answer: Answer) -> None:
        answers.write(msgspec.json.encode(answer) + b"\n")

    from tianji.environments.forms import described

    try:
        asked = question.env_id, question.lanes, question.games, question.simulator, question.settings
        with described(*asked, lambda doing: say(Answer(doing=doing))) as found:
            say(Answer(found))
    except ConfigError as refused:
        say(Answer(refusal=str(refused)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
