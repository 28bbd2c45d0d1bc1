"""Explorers as forked processes, started on their node, controlled and watched.

They are forked before the learner's end opens anything, so that nothing is shared by accident. Orders go through a pipe of the
operating system and are not measured.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from programs.process import die_with_parent, name_process
from suites.transmission.pipe import Broadcast, Setting, read
from suites.transmission.pipe import Message as Body


class Explorer(NamedTuple):
    """The explorer's end of samples."""

    send: Callable[[int], object]
    """Send that many messages, waiting where there is no room; all of them are on their way when this returns."""
    round_trip: Callable[[], object]
    """Send one message; return when the learner is known to have read it."""


Follow = Callable[[NDArray[np.float32]], object]
"""Explorer's end of weights: waits for the next vector and copies it to its own memory."""


Message = dict[str, Any]
"""Message on a control line.

The learner sends {"address": where}, {"send": number} or {"trips": number}. An explorer sends {"ready": true},
{"took": nanoseconds of each round trip} or {"failed": why}."""


def _say(line: Connection, message: Message) -> None:
    line.send_bytes(msgspec.json.encode(message))


def _hear(line: Connection) -> Message:
    message: Message = msgspec.json.decode(line.recv_bytes())
    return message


class ExplorerFailed(Exception):
    """An explorer ended that should not have; the text says why."""


class Crew:
    """Explorer processes, and lines to them.

    Parameters
    ----------
    main
        what an explorer does, given its number and its line.
    """

    def __init__(self, setting: Setting, main: Callable[[int, Connection], None]) -> None:
        context = multiprocessing.get_context("fork")
        self._parent, self._lines, self._processes = os.getpid(), list[Connection](), list[ForkProcess]()
        self._ending = False
        self._awaited = list(range(setting.explorers))
        self._before = signal.signal(signal.SIGCHLD, self._ended)
        for number in range(setting.explorers):
            ours, theirs = context.Pipe()
            process = context.Process(target=self._run, args=(setting, main, number, theirs, [*self._lines, ours]))
            process.start()
            theirs.close()
            self._lines.append(ours)
            self._processes.append(process)

    def _run(
        self,
        setting: Setting,
        main: Callable[[int, Connection], None],
        number: int,
        line: Connection,
        others: Sequence[Connection],
    ) -> None:
        """In the explorer's process."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        die_with_parent(self._parent)
        for other in others:
            other.close()
        name_process(f"tj-explorer {number}")
        setting.beyond.enter()
        try:
            main(number, line)
        except EOFError:
            return  # The line was closed: there is no more to do.
        except Exception as error:  # The learner must hear of it, whatever it is.
            traceback.print_exc()
            _say(line, {"failed": f"explorer {number}: {type(error).__name__}: {error}"})

    def _ended(self, signum: int, frame: FrameType | None) -> None:
        """Handle the end of a child. If an explorer ended too early, waiting for it must end too."""
        if callable(self._before):
            self._before(signum, frame)
        if os.getpid() != self._parent or self._ending:
            return
        for number, process in enumerate(self._processes):
            if not process.is_alive():
                self._ending = True
                with suppress(EOFError, OSError):  # It may have said nothing.
                    while self._lines[number].poll():
                        if "failed" in (message := _hear(self._lines[number])):
                            raise ExplorerFailed(message["failed"])
                raise ExplorerFailed(f"explorer {number} ended, exit status {process.exitcode}")

    def _answer(self, number: int) -> Message:
        try:
            message = _hear(self._lines[number])
        except (EOFError, OSError):
            raise ExplorerFailed(f"explorer {number} ended") from None
        if "failed" in message:
            raise ExplorerFailed(message["failed"])
        return message

    def direct(self, address: str) -> None:
        """Tell explorers where the learner is."""
        for line in self._lines:
            _say(line, {"address": address})

    def all_ready(self) -> bool:
        """Whether every explorer has said that it stands ready."""
        while self._awaited and self._lines[self._awaited[0]].poll():
            self._answer(self._awaited.pop(0))
        return not self._awaited

    def wait_ready(self) -> None:
        """Wait until every explorer stands ready."""
        for number in self._awaited:
            self._answer(number)
        self._awaited.clear()

    def begin(self, each: int) -> None:
        """Let all explorers send."""
        for line in self._lines:
            _say(line, {"send": each})

    def begin_trips(self, number: int) -> None:
        """Have explorer 0 make round trips."""
        _say(self._lines[0], {"trips": number})

    def trips(self) -> list[int]:
        """Durations of the round trips, once they are done."""
        took: list[int] = self._answer(0)["took"]
        return took

    def close(self) -> None:
        """End all explorers."""
        self._ending = True
        for line in self._lines:
            line.close()
        for process in self._processes:
            process.kill()  # It owns nothing that outlives it.
        for process in self._processes:
            process.join()
            process.close()
        signal.signal(signal.SIGCHLD, self._before)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Acknowledgements:
    """Counts explorers that have a vector."""

    def __init__(self, explorers: int) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._explorers, self._came = explorers, 0
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)

    def complete(self) -> bool:
        """Whether all have it, as far as has been heard."""
        with suppress(BlockingIOError):
            self._came += os.eventfd_read(self.fd)
        return self._came >= self._explorers

    def wait(self) -> None:
        """Wait until all have it; then the count begins again."""
        while not self.complete():
            self._poll.poll()
        self._came = 0

    def of(self, publish: Broadcast) -> Broadcast:
        """Publishing that is over when all have it."""

        def broadcast(version: int, vector: NDArray[np.float32]) -> None:
            publish(version, vector)
            self.wait()

        return broadcast

    def __enter__(self) -> Acknowledgements:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


@dataclass
class CrewSamples:
    """The learner's end of samples (`Samples`) from a crew, whose own functions a pipe brings."""

    crew: Crew
    size_bytes: int
    receive: Callable[[], Sequence[Body]]
    release: Callable[[], None] = lambda: None
    answer: Callable[[], object] | None = None
    """Lets the explorer know that its message was read; None: releasing does."""

    def begin(self, each: int) -> None:
        self.crew.begin(each)

    def round_trips(self, number: int) -> Sequence[int]:
        answer = self.answer or self.release
        self.crew.begin_trips(number)
        for _ in range(number):
            left = self.size_bytes
            while left:
                for body in self.receive():
                    read(body)
                    left -= body.nbytes
                if left:
                    self.release()
            answer()
        return self.crew.trips()


def sending(make: Callable[[int, str], Iterator[Explorer]]) -> Callable[[int, Connection], None]:
    """The main loop of an explorer that sends; `make` yields it once, given its number and the learner's address."""

    def main(number: int, line: Connection) -> None:
        with contextmanager(make)(number, _hear(line)["address"]) as explorer:
            _say(line, {"ready": True})
            while True:
                match _hear(line):
                    case {"send": each}:
                        explorer.send(each)
                    case {"trips": trips}:
                        took = []
                        for _ in range(trips):
                            before = time.perf_counter_ns()
                            explorer.round_trip()
                            took.append(time.perf_counter_ns() - before)
                        _say(line, {"took": took})
                    case other:
                        raise TypeError(f"no order: {other}")

    return main


@contextmanager
def followers(
    setting: Setting, size_bytes: int, make: Callable[[int, str], Iterator[Follow]]
) -> Iterator[tuple[Crew, Acknowledgements]]:
    """Explorers that take weights; `make` yields each once, given its number and the learner's address.

    Each vector's first and last element say which one it is; that is checked, and acknowledged on an eventfd.
    """

    def main(number: int, line: Connection) -> None:
        with contextmanager(make)(number, _hear(line)["address"]) as follow:
            out = np.zeros(size_bytes // 4, np.float32)
            _say(line, {"ready": True})
            version = 0
            while True:
                follow(out)
                version += 1
                if out[0] != version or out[-1] != version:
                    raise ValueError(f"vector {version} came as {out[0]} to {out[-1]}")
                os.eventfd_write(acknowledgements.fd, 1)

    with Acknowledgements(setting.explorers) as acknowledgements, Crew(setting, main) as crew:
        yield crew, acknowledgements
