"""Roles of unequal speed in the simulated world, which show the production that a discipline allows.

Work takes its stated time, messages take none, and nothing is computed. So figures are the same on every machine, to the last
digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tianji.config import TrainConfig
from tianji.environments.actions import Actions
from tianji.environments.description import EnvDescription
from tianji.roles.actor import Actor
from tianji.roles.learner import Learner
from tianji.roles.role import Effect, Event, Work, WorkDone
from tianji.simulation.world import Simulation

Durations = Callable[[int], Iterator[float]]
"""Function from an actor's number to the endless durations of its fragments, in seconds."""


@dataclass(frozen=True)
class Span:
    """A piece of work."""

    role: str
    """`learner`, or `actor N`."""
    start: float
    """In seconds."""
    end: float
    version: int
    """Of a fragment's policy, or of the learner before a round."""


class Drawn:
    """Times of work: fragments of waiting, and rounds that are all alike."""

    def __init__(self, produce: Durations, actors: int, round_s: float) -> None:
        self._fragments = [produce(number) for number in range(actors)]
        self._round_s = round_s

    def fragment(self, actor: int) -> tuple[float, float]:
        return 0.0, next(self._fragments[actor])

    def round(self, group: int, samples: int) -> float:
        return self._round_s

    def mean(self, models: int) -> float:
        return 0.0


class Unequal:
    """Actors and their learner, whose work is recorded.

    Parameters
    ----------
    config
        of one group without a Root.
    produce
        how long fragments take.
    round_s
        how long a round of updates takes.
    """

    def __init__(self, config: TrainConfig, produce: Durations, round_s: float) -> None:
        # The sizes of messages do not matter, as they take no time.
        sizes = EnvDescription(config.env, (1,), "<f4", 0, Actions.of(2))
        times = Drawn(produce, config.actors, round_s)
        self._simulation = Simulation(replace(config, stop_steps=1 << 50), sizes, times, trace=self._note)
        self._hosts = {name: process.host(name) for name, process in self._simulation.processes.items()}
        self._labels = {
            name: name.split()[0] if "learner" in name else f"actor {name.rpartition('.a')[2]}" for name in self._hosts
        }
        self._began: dict[str, tuple[float, int]] = {}
        self.spans: list[Span] = []
        """Every piece of work that has ended, in order of ends."""

    def _note(self, name: str, events: Sequence[Event], effects: Sequence[Effect]) -> None:
        now = self._simulation.processes[name].clock() / 1e9
        if any(isinstance(event, WorkDone) for event in events):
            start, version = self._began[name]
            label = f"actor {name.rpartition('.a')[2]}" if name.startswith("actor") else name.split()[0]
            self.spans.append(Span(label, start, now, version))
        if any(isinstance(effect, Work) for effect in effects):
            role = self._hosts[name].role
            assert isinstance(role, Actor | Learner)
            self._began[name] = now, role.version

    def run(self, seconds: float) -> None:
        """Go on for so long."""
        self._simulation.run(seconds)

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self._simulation.now_ns / 1e9

    @property
    def learner(self) -> Learner:
        """The state machine of the learner."""
        role = self._hosts["learner g0"].role
        assert isinstance(role, Learner)
        return role

    @property
    def produced(self) -> float:
        """Environment steps of all actors."""
        return sum(host.role.samples for host in self._hosts.values() if isinstance(host.role, Actor))

    @property
    def waited(self) -> list[float]:
        """Seconds that each actor waited for others."""
        actors = [host for host in self._hosts.values() if isinstance(host.role, Actor)]
        return [sum(ns for cause, ns in host.account.wait_ns.items() if cause != "simulator") / 1e9 for host in actors]
