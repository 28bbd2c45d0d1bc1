"""Explorers as forked processes: started on their node, told how much to send, watched.

They are forked before the learner's end opens anything, so nothing is shared but what a pipe made on purpose. Orders travel
on a pipe of the operating system and are never part of what is measured.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import time
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from types import FrameType, TracebackType
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from programs.process import die_with_parent, name_process
from suites.transmission.pipe import Pipe, Samples, Setting, Weights, read


class Explorer(NamedTuple):
    """The explorer's end of samples."""

    send: Callable[[int], None]
    """Sends that many messages, waiting where there is no room; all of them are on their way when it returns."""
    round_trip: Callable[[], None]
    """Sends one message; returns when the learner is known to have read it."""


Follow = Callable[[NDArray[np.float32]], None]
"""The explorer's end of weights: waits for the next vector and copies it to the array that it is given."""


class _Address(Struct, array_like=True, tag=True):
    text: str


class _Send(Struct, array_like=True, tag=True):
    number: int


class _Trips(Struct, array_like=True, tag=True):
    number: int


class _Ready(Struct, array_like=True, tag=True):
    pass


class _Took(Struct, array_like=True, tag=True):
    nanoseconds: list[int]


class _Failed(Struct, array_like=True, tag=True):
    text: str


Message = _Address | _Send | _Trips | _Ready | _Took | _Failed
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def _say(line: Connection, message: Message) -> None:
    line.send_bytes(msgspec.msgpack.encode(message))


def _hear(line: Connection) -> Message:
    return _decoder.decode(line.recv_bytes())


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
            _say(line, _Failed(f"explorer {number}: {type(error).__name__}: {error}"))

    def _ended(self, signum: int, frame: FrameType | None) -> None:
        """A child has ended; if it is an explorer that was not told to, whoever waits for it must not wait for ever."""
        if callable(self._before):
            self._before(signum, frame)
        if os.getpid() != self._parent or self._ending:
            return
        for number, process in enumerate(self._processes):
            if not process.is_alive():
                self._ending = True
                with suppress(EOFError, OSError):  # It may have said nothing.
                    while self._lines[number].poll():
                        if isinstance(message := _hear(self._lines[number]), _Failed):
                            raise ExplorerFailed(message.text)
                raise ExplorerFailed(f"explorer {number} ended, exit status {process.exitcode}")

    def _answer(self, number: int) -> Message:
        try:
            message = _hear(self._lines[number])
        except (EOFError, OSError):
            raise ExplorerFailed(f"explorer {number} ended") from None
        if isinstance(message, _Failed):
            raise ExplorerFailed(message.text)
        return message

    def direct(self, address: str = "") -> None:
        """Tell explorers where the learner is; nothing where they know."""
        for line in self._lines:
            _say(line, _Address(address))

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
        """Have everybody send."""
        for line in self._lines:
            _say(line, _Send(each))

    def begin_trips(self, number: int) -> None:
        """Have explorer 0 make round trips."""
        _say(self._lines[0], _Trips(number))

    def trips(self) -> list[int]:
        """What they took, once they are made."""
        message = self._answer(0)
        assert isinstance(message, _Took)
        return message.nanoseconds

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

    def __enter__(self) -> Acknowledgements:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


class CrewSamples(Samples):
    """The learner's end of samples from a crew."""

    def __init__(self, crew: Crew, size_bytes: int) -> None:
        self._crew, self._size_bytes = crew, size_bytes

    def begin(self, each: int) -> None:
        self._crew.begin(each)

    def answer(self) -> None:
        """Let the explorer know that its message was read."""
        self.release()

    def round_trips(self, number: int) -> Sequence[int]:
        self._crew.begin_trips(number)
        for _ in range(number):
            left = self._size_bytes
            while left:
                for body in self.receive():
                    read(body)
                    left -= body.nbytes
                if left:
                    self.release()
            self.answer()
        return self._crew.trips()


class CrewWeights(Weights):
    """The learner's end of weights for a crew whose followers acknowledge."""

    def __init__(self, acknowledgements: Acknowledgements, publish: Callable[[int, NDArray[np.float32]], None]) -> None:
        self._acknowledgements, self._publish = acknowledgements, publish

    def broadcast(self, version: int, vector: NDArray[np.float32]) -> None:
        self._publish(version, vector)
        self._acknowledgements.wait()


class CrewPipe(Pipe):
    """A pipe to a crew: a subclass says what stands at either end.

    What the processes share is made before they are forked: by a subclass that wraps `samples` or `weights`.
    """

    @abstractmethod
    def explorer(self, number: int, address: str, size_bytes: int) -> AbstractContextManager[Explorer]:
        """In the process of an explorer: its end, given its number and where the learner is."""

    @abstractmethod
    def learner(self, crew: Crew, size_bytes: int) -> AbstractContextManager[Samples]:
        """Here: the end that receives; the crew has been told where it is, and is ready."""

    @abstractmethod
    def follower(self, number: int, address: str, size_bytes: int) -> AbstractContextManager[Follow]:
        """In the process of an explorer: the end that takes weights."""

    @abstractmethod
    def publisher(self, crew: Crew, told: Acknowledgements, size_bytes: int) -> AbstractContextManager[Weights]:
        """Here: the end that sends weights; the crew has been told where it is, and is ready."""

    @contextmanager
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        def explorer(number: int, address: str) -> AbstractContextManager[Explorer]:
            return self.explorer(number, address, size_bytes)

        with Crew(self.setting, sending(explorer)) as crew, self.learner(crew, size_bytes) as end:
            yield end

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Weights]:
        def follower(number: int, address: str) -> AbstractContextManager[Follow]:
            return self.follower(number, address, size_bytes)

        with (
            Acknowledgements(self.setting.explorers) as told,
            Crew(self.setting, following(follower, size_bytes // 4, told.fd)) as crew,
            self.publisher(crew, told, size_bytes) as end,
        ):
            yield end


def sending(make: Callable[[int, str], AbstractContextManager[Explorer]]) -> Callable[[int, Connection], None]:
    """The main loop of an explorer that sends, given its number and the learner's address."""

    def main(number: int, line: Connection) -> None:
        address = _hear(line)
        assert isinstance(address, _Address)
        with make(number, address.text) as explorer:
            _say(line, _Ready())
            while True:
                match _hear(line):
                    case _Send(each):
                        explorer.send(each)
                    case _Trips(trips):
                        took = []
                        for _ in range(trips):
                            before = time.perf_counter_ns()
                            explorer.round_trip()
                            took.append(time.perf_counter_ns() - before)
                        _say(line, _Took(took))
                    case other:
                        raise TypeError(f"no order: {other}")

    return main


def following(
    make: Callable[[int, str], AbstractContextManager[Follow]], parameters: int, acknowledge_fd: int
) -> Callable[[int, Connection], None]:
    """The main loop of an explorer that takes weights.

    Each vector's first and last element say which one it is; that is checked, and acknowledged on an eventfd.
    """

    def main(number: int, line: Connection) -> None:
        address = _hear(line)
        assert isinstance(address, _Address)
        with make(number, address.text) as follow:
            out = np.zeros(parameters, np.float32)
            _say(line, _Ready())
            version = 0
            while True:
                follow(out)
                version += 1
                if out[0] != version or out[-1] != version:
                    raise ValueError(f"vector {version} came as {out[0]} to {out[-1]}")
                os.eventfd_write(acknowledge_fd, 1)

    return main
