"""The same work inside the system: real role processes, with a stand-in for those that are left out."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from benchmarks.efficiency.cases import Window
from suites.components.work import RECORDED, record
from tianji import topology as names
from tianji.algorithms import networks
from tianji.channel.registry import Channels
from tianji.channel.waiter import Waiter
from tianji.channel.zmq import Control
from tianji.config import TrainConfig
from tianji.disciplines.staleness import SequenceLedger
from tianji.environments.description import EnvDescription
from tianji.launch.children import Children
from tianji.launch.control import control_socket
from tianji.launch.events import Heard
from tianji.launch.job import neighbours
from tianji.launch.supervisor import Supervisor
from tianji.messages import LIFE, ChunkHeader, Done, Episodes, Report, SlotRef, Snapshot, encode
from tianji.run.training import train
from tianji.topology import Topology, build, chunk_edge, parameters, seats
from tianji.worlds import publication
from tianji.worlds.real import Assignment, LocalAssignment

T = TypeVar("T")
StandIn = Callable[[Channels, Topology, threading.Event], T]
"""Does the work of roles that are left out, until it has what it wants or the event is set."""

LIMIT_S = 60.0
"""Beyond the length of their window, in which it must be over."""
LOOK_S = 0.1
"""Seconds without a call after which a stand-in checks whether it should end."""


def with_stand_in(
    config: TrainConfig, describe: EnvDescription, kinds: Sequence[str], stand_in: StandIn[T], limit_s: float
) -> tuple[T, list[Report]]:
    """Start roles of these kinds as the launcher does, with a stand-in for the others in a thread of this process.

    Returns
    -------
    what the stand-in returns, and the roles' reports.

    Raises
    ------
    tianji.launch.events.RoleFailed
        when a role fails. Nothing is left running then, nor after Ctrl-C.
    """
    unwanted, reports = threading.Event(), list[Report]()

    def listen(message: Heard) -> str | None:
        if isinstance(message, Report):
            reports.append(message)
        return "measured" if isinstance(message, Done) else None

    def work(topology: Topology, control_uri: str) -> T:
        with Channels() as channels, Control(channels.context, control_uri, channels.security) as line:
            try:
                return stand_in(channels, topology, unwanted)
            finally:
                line.send(encode(Done("measured")))

    with ExitStack() as stack:
        control, base_uri = stack.enter_context(control_socket(parameters(config, describe)))
        topology, control_uri = build(config, base_uri.replace("ipc:", f"{config.channel}:", 1)), f"{base_uri}/control"
        on_this_host = neighbours(topology.roles, dict.fromkeys((spec.name for spec in topology.roles), 0))
        children = Children(config.env)
        at = {specs[0].name: specs for specs in seats(config, topology.roles) if specs[0].kind in kinds}
        supervisor = Supervisor(control, children, frozenset(at), listen)
        pool = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(supervisor.end)
        stack.callback(unwanted.set)
        for name, specs in at.items():
            assignment = Assignment(specs, config, describe, topology, control_uri, neighbours=on_this_host[name])
            told = msgspec.json.encode(LocalAssignment(assignment, os.getpid(), tuple(sys.path)))
            children.spawn(name, ["tianji.worlds.real", f"tj-{name}"], told)
        future = pool.submit(work, topology, control_uri)
        supervisor.supervise(limit_s)
        unwanted.set()
        return future.result(), reports


@dataclass
class Consumed:
    """Chunks received from an actor."""

    chunks: int = 0
    steps: int = 0
    lost: int = 0
    duplicated: int = 0


def sampling(config: TrainConfig, describe: EnvDescription, window: Window) -> tuple[Consumed, list[Report]]:
    """An actor process that sends its chunks over shared memory to a consumer that gives them straight back."""

    def consume(channels: Channels, topology: Topology, unwanted: threading.Event) -> Consumed:
        edge, size = chunk_edge(config, describe), parameters(config, describe)
        inlet = channels.inlet(topology.addresses[names.chunks(0)], edge)
        board = channels.weights_outlet(topology.addresses[names.weights(0)], size)
        policy = networks.of(config, describe)
        # Once: these actors sample on with what they have.
        board.publish(0, policy.initialise(config.seed))
        came, ledger, clock = Consumed(), SequenceLedger(LIFE), time.monotonic_ns
        with Waiter([inlet, board]) as waiter:
            while not window.over and not unwanted.is_set():
                board.serve()
                chunks = inlet.receive()
                if not chunks:
                    waiter.wait(LOOK_S)
                    continue
                inlet.release([chunk.slot for chunk in chunks])
                for chunk in chunks:
                    ledger.see(chunk.producer, chunk.sequence)
                    came.chunks += 1
                    came.steps += chunk.count
                window.see(clock(), came.steps)
        came.lost, came.duplicated = ledger.lost, ledger.duplicated
        return came

    return with_stand_in(config, describe, ["actor"], consume, window.length_s + LIMIT_S)


def learning(config: TrainConfig, describe: EnvDescription, window: Window) -> list[Report]:
    """A learner process and its buffer, fed by one that plays all actors and never lets them wait; returns their reports.

    The window sees versions as they appear on the weights edge.
    """

    def feed(channels: Channels, topology: Topology, unwanted: threading.Event) -> None:
        edge = chunk_edge(config, describe)
        outlets = [channels.outlet(topology.addresses[names.chunks(0)], edge, actor) for actor in range(config.actors)]
        weights = np.zeros(parameters(config, describe), np.float32)
        board = channels.weights_inlet(topology.addresses[names.weights(0)], len(weights))
        experience = [record(config, describe, actor) for actor in range(config.actors)]
        filled: set[SlotRef] = set()
        credit: list[list[SlotRef]] = [[] for _ in outlets]
        sequence = [0] * config.actors
        version: int | None = None
        with Waiter([*outlets, board]) as waiter:
            while not window.over and not unwanted.is_set():
                for slots, outlet in zip(credit, outlets, strict=True):
                    slots += outlet.credits()
                # After the credit, as actors do: what is sent for it then is of the newest policy.
                newest = board.latest(weights)
                if newest is not None:
                    version = publication.read(newest).version
                    if version:
                        window.see(time.monotonic_ns(), version)
                if version is None or not any(credit):
                    waiter.wait(LOOK_S)
                    continue
                for actor, (slots, outlet) in enumerate(zip(credit, outlets, strict=True)):
                    for slot in slots:
                        chunk = experience[actor][slot.slot % RECORDED]
                        if slot not in filled:
                            filled.add(slot)
                            outlet.slot(slot)[: chunk.size_bytes] = memoryview(chunk.memory)[: chunk.size_bytes]
                        counted = chunk.count, chunk.ragged_rows, chunk.size_bytes
                        outlet.send([ChunkHeader(actor, sequence[actor], version, edge.layout.id, *counted, slot)])
                        sequence[actor] += 1
                    slots.clear()

    return with_stand_in(config, describe, ["learner", "buffer"], feed, window.length_s + LIMIT_S)[1]


def both(config: TrainConfig, sampled: Window, learned: Window) -> list[Report]:
    """The complete system, as `tianji train` runs it; returns the roles' reports.

    Parameters
    ----------
    sampled, learned
        count environment steps of the actor, and optimizer steps.
    """

    enough = False

    def listen(message: Heard) -> None:
        nonlocal enough
        match message:
            case Episodes(actor_steps=steps, at_ns=at):
                sampled.see(at, steps)
            case Snapshot(version=version, at_ns=at) if version:
                learned.see(at, version)
        if sampled.over and learned.over and not enough:
            enough = True
            # `train` keeps what was done when it is interrupted, and has no other way of being stopped by who listens.
            raise KeyboardInterrupt

    result = train(replace(config, stop_seconds=sampled.length_s + LIMIT_S), listen)
    if result.outcome == "interrupted" and not enough:
        raise KeyboardInterrupt
    return result.reports
