"""Forecast of a run: throughput, the age of samples and what binds, from a window of the simulated world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.roles.learner import Learner
from tianji.roles.role import Effect, Event
from tianji.simulation.bottleneck import Shares, binds
from tianji.simulation.machines import Machine
from tianji.simulation.stand_ins import Times
from tianji.simulation.world import Process, Simulation
from tianji.worlds.host import Host

ENDLESS = 1 << 50
"""Steps at which a run never stops."""
FIRST_STEP_S, GROWTH = 1e-3, 0.03
"""Seconds of the simulation's clock until the first look at it, and by what share of the time each further look is later."""


@dataclass(frozen=True)
class Forecast:
    """What a run would give. Predicted, not measured."""

    steps_per_s: float
    """Samples trained on, each counted once, of all groups."""
    age_rounds: float
    """Mean number of rounds by which a learner is ahead of a sample's policy when it trains on it."""
    shares: Shares
    """How the time of the window is used."""

    @property
    def binds(self) -> str:
        """What binds, see `tianji.simulation.bottleneck.binds`."""
        return binds(self.shares)


@dataclass(frozen=True)
class _Reading:
    """Totals at a moment."""

    ns: int
    steps: int
    aged: int
    """Sum of the ages, in rounds, of all chunks trained on."""
    chunks: int
    busy: dict[tuple[str, str], int]
    """By kind of role and cause, nanoseconds of all its roles together."""
    waits: dict[tuple[str, str], int]
    link: tuple[int, int]
    """Nanoseconds for which the hub's link was busy, out and in."""


def forecast(
    config: TrainConfig,
    describe: EnvDescription,
    times: Times,
    machine: Machine,
    nodes: int,
    rounds: int,
    *,
    warm_up: int = 4,
) -> Forecast:
    """Simulate a window of a run that goes on.

    Parameters
    ----------
    rounds
        rounds of the first group's learner in the window. With several groups, they are extended to whole exchanges with the
        Root.
    warm_up
        rounds before the window, extended likewise: after its first exchange a Root's answers have spread the groups in time.
    """
    each = config.fusion_rounds if config.groups > 1 else 1
    # Each on its own: with exchanges of many rounds both may end at the same one, and a window must not be empty.
    before, window = (-(-number // each) * each for number in (warm_up, rounds))
    after = before + window
    endless = replace(config, stop_steps=ENDLESS, stop_seconds=None, snapshot_every_steps=ENDLESS)
    readings: list[_Reading] = []

    def watch(name: str, events: Sequence[Event], effects: Sequence[Effect]) -> None:
        if name == FIRST and learner.rounds >= (before, after)[min(len(readings), 1)] and len(readings) < 2:
            readings.append(_read(run, process.clock()))

    run = Simulation(endless, describe, times, machine=machine, nodes=nodes, trace=watch)
    process = run.processes[FIRST]
    learner = _learner(process.host(FIRST))
    while len(readings) < 2:
        run.run(max(FIRST_STEP_S, GROWTH * run.now_ns / 1e9))
    return _between(readings[0], readings[1], config)


FIRST = "learner g0"


def _learner(host: Host) -> Learner:
    assert isinstance(host.role, Learner)
    return host.role


def _read(run: Simulation, now_ns: int) -> _Reading:
    busy: dict[tuple[str, str], int] = {}
    waits: dict[tuple[str, str], int] = {}
    steps = aged = chunks = 0
    for host in (host for process in _processes(run) for host in process.hosts):
        kind = host.role.name.split()[0]
        for total, own in ((busy, host.account.busy_ns), (waits, host.account.wait_ns)):
            for cause, ns in own.items():
                total[kind, cause] = total.get((kind, cause), 0) + ns
        if isinstance(host.role, Learner):
            ages = host.role.histograms()["age_rounds"]
            steps += host.role.steps
            aged += sum(age * count for age, count in ages.items())
            chunks += sum(ages.values())
    hub = run.processes["root" if "root" in run.processes else FIRST].node
    return _Reading(now_ns, steps, aged, chunks, busy, waits, (hub.out_busy_ns, hub.in_busy_ns))


def _processes(run: Simulation) -> list[Process]:
    return list(dict.fromkeys(run.processes.values()))


def _between(begin: _Reading, end: _Reading, config: TrainConfig) -> Forecast:
    window_ns = end.ns - begin.ns

    def share(now: dict[tuple[str, str], int], was: dict[tuple[str, str], int], kind: str, roles: int, *causes: str) -> float:
        return sum(now.get((kind, cause), 0) - was.get((kind, cause), 0) for cause in causes) / (window_ns * roles)

    actors, groups = config.groups * config.actors, config.groups
    out, into = ((now - was) / window_ns for now, was in zip(end.link, begin.link, strict=True))
    shares = Shares(
        update=share(end.busy, begin.busy, "learner", groups, "update"),
        send=share(end.busy, begin.busy, "learner", groups, "send"),
        samples=share(end.waits, begin.waits, "learner", groups, "samples"),
        barrier=share(end.waits, begin.waits, "learner", groups, "barrier"),
        sampling=share(end.busy, begin.busy, "actor", actors, "env", "infer", "send"),
        simulators=share(end.waits, begin.waits, "actor", actors, "simulator"),
        root=share(end.busy, begin.busy, "root", 1, "update", "send"),
        hub_out=out,
        hub_in=into,
        hub="Root" if groups > 1 else "learner",
    )
    chunks = end.chunks - begin.chunks
    age = (end.aged - begin.aged) / chunks if chunks else 0.0
    return Forecast((end.steps - begin.steps) / (window_ns / 1e9), age, shares)
