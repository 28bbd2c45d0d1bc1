"""Command-line conventions of all commands: one line for bad input, and defined exit statuses."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from programs.characters import one_line

DONE, FAILED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


class ConfigError(Exception):
    """Unusable arguments or input; its text is one line that says what is wrong and what would be right."""


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        print(one_line(f"{self.prog}: {message}"), file=sys.stderr)
        raise SystemExit(UNUSABLE)


def interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    """Handles SIGTERM in every command: as Ctrl-C."""
    raise KeyboardInterrupt


def run(program: str, main: Callable[[Sequence[str]], int], arguments: Sequence[str] | None = None) -> int:
    """Run a command's main function; SIGTERM ends it as Ctrl-C does, in order.

    Returns
    -------
    int
        what `main` returns, 2 with one line on stderr for a `ConfigError`, 130 when interrupted.
    """
    signal.signal(signal.SIGTERM, interrupt)
    try:
        return _run(program, main, arguments)
    except KeyboardInterrupt:
        # Another one, while the first was being told of.
        return INTERRUPTED
    finally:
        _last_words(arguments)


def _run(program: str, main: Callable[[Sequence[str]], int], arguments: Sequence[str] | None) -> int:
    try:
        return main(sys.argv[1:] if arguments is None else arguments)
    except ConfigError as error:
        print(one_line(f"{program}: {error}"), file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        _last_words(arguments)
        print(f"{program}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stderr.close()
        return DONE


def _last_words(arguments: Sequence[str] | None) -> None:
    """The process ends now: a further Ctrl-C would only cut off what it says, or replace its exit status by a signal's."""
    if arguments is None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
