"""Builds the host of a role: its state machine, its worker and its ends of the edges."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from tianji import topology as names
from tianji.algorithms.normalisation import Sizes
from tianji.algorithms.state import State
from tianji.averaging import message_size
from tianji.channel.base import Ends, Inlet, WeightsOutlet
from tianji.config import TrainConfig
from tianji.disciplines.discipline import Discipline
from tianji.environments.description import EnvDescription
from tianji.environments.place import Place
from tianji.layout import ChunkLayout
from tianji.messages import LIFE
from tianji.roles.actor import Actor
from tianji.roles.buffer import Buffer
from tianji.roles.fusion import ROOT, Membership
from tianji.roles.learner import Learner
from tianji.roles.root import Root
from tianji.run_folder import read_state, read_values, state_path
from tianji.telemetry import Clock, Sink
from tianji.topology import RoleSpec, Topology, acting_parameters, chunk_edge, parameters
from tianji.worlds.host import Host, Models, Trace
from tianji.worlds.workers import Body, Idle, ModelWorker, Worker, chunk_views


class Store(Struct, frozen=True):
    """Folder in which learners store their state."""

    folder: str
    resume: bool
    """Whether learners start from the state in the folder."""
    saves: bool = True
    """Whether they store their state there."""


class Past(Struct, frozen=True):
    """History of a role before its current process."""

    life: int = 0
    """Number of earlier processes of this role."""
    steps: int = 0
    """Environment steps of an actor's earlier processes."""
    memory: dict[str, Any] | None = None
    """State with which an actor goes on in the same episodes (`tianji.worlds.sampler`)."""


class Workers:
    """Factory of the roles' workers. A world may use another one, for instance with workers that only say how long work takes.

    Modules are imported when a role needs them, because environments take long to import.
    """

    def averager(self, parameters: int, ports: Sequence[str], sizes: Sizes | None) -> ModelWorker:
        """Worker of a Root."""
        from tianji.worlds.averager import Averager

        return Averager(parameters, ports, sizes)

    def trainer(self, config: TrainConfig, describe: EnvDescription, body: Body, store: Path | None, group: int) -> ModelWorker:
        """Worker of a learner."""
        from tianji.worlds.trainer import Trainer

        return Trainer(config, describe, body, store, group)

    def sampler(
        self,
        config: TrainConfig,
        describe: EnvDescription,
        layout: ChunkLayout,
        body: Body,
        index: int,
        clock: Clock,
        past: Past,
        place: Place | None = None,
    ) -> Worker:
        """Worker of an actor."""
        from tianji.worlds.lanes import sampler

        return sampler(
            config, describe, layout, body, index, clock, life=past.life, steps=past.steps, place=place, memory=past.memory
        )


class Assembler:
    """Builds the hosts of one run.

    Parameters
    ----------
    pace
        clock of the times that roles receive; see `Host`.
    trace
        receives all events and effects of the roles.
    store
        folder of the learners' state; None: it is not stored.
    workers
        makes the roles' workers.
    place
        where an actor notes what it does with its environments; None: nowhere.
    """

    def __init__(
        self,
        config: TrainConfig,
        describe: EnvDescription,
        topology: Topology,
        channels: Ends,
        tell: Sink,
        *,
        pace: Clock = time.monotonic_ns,
        trace: Trace | None = None,
        store: Store | None = None,
        workers: Workers | None = None,
        place: Place | None = None,
    ) -> None:
        self.config, self.describe, self.topology, self.channels = config, describe, topology, channels
        self.tell, self.pace, self.trace, self.store = tell, pace, trace, store
        self.clock, self.workers, self.place = time.monotonic_ns, workers or Workers(), place
        self.edge = chunk_edge(config, describe)
        self._bound: dict[str, Any] = {}

    @cached_property
    def parameters(self) -> int:
        """Number of parameters of the network, computed only for roles that need it."""
        return parameters(self.config, self.describe)

    @cached_property
    def acting(self) -> int:
        """Number of those that actors need."""
        return acting_parameters(self.config, self.describe)

    @cached_property
    def model_size(self) -> int:
        """Length of the vector that a learner and the Root exchange."""
        return message_size(self.parameters, Sizes(self.config.normalise, self.describe).all)

    @cached_property
    def _owned(self) -> dict[str, list[str]]:
        """Names of the edges that each role binds, by its name."""
        found: dict[str, list[str]] = {}
        for name, (owner, _) in names.edges(self.topology.roles).items():
            found.setdefault(owner.name, []).append(name)
        return found

    @cached_property
    def _children(self) -> dict[str, list[RoleSpec]]:
        """Learners and Roots under each Root, by its name."""
        found: dict[str, list[RoleSpec]] = {}
        for role in self.topology.roles:
            found.setdefault(role.under, []).append(role)
        return found

    def bind(self, *specs: RoleSpec) -> dict[str, str]:
        """Bind the ends of these roles, and return their addresses by the edge's name."""
        for spec in specs:
            self._bind(spec)
        return {name: end.uri for name, end in self._bound.items()}

    def _bind(self, spec: RoleSpec) -> None:
        for name in self._owned.get(spec.name, ()):
            if name in self._bound:
                continue
            address = self.topology.addresses[name]
            if name.startswith(("chunks", "batches")):
                self._bound[name] = self.channels.inlet(address, self.edge)
            else:
                size = self.acting if name.startswith("weights") else self.model_size
                self._bound[name] = self.channels.weights_outlet(address, size)

    def wire(self, addresses: dict[str, str]) -> None:
        """Set the addresses that are known only now."""
        self.topology = msgspec.structs.replace(self.topology, addresses=self.topology.addresses | addresses)

    def build(self, spec: RoleSpec, past: Past | None = None) -> Host:
        """Build the host of a role."""
        self._bind(spec)
        kinds = {"root": self._root, "learner": self._learner, "buffer": self._buffer, "actor": self._actor}
        host = kinds[spec.kind](spec, past or Past())
        host.trace = self.trace
        return host

    def _inlet(self, name: str) -> Inlet:
        return cast(Inlet, self._bound[name])

    def _publisher(self, name: str) -> WeightsOutlet:
        return cast(WeightsOutlet, self._bound[name])

    def _host(self, role: Any, worker: Any, **ends: Any) -> Host:
        return Host(role, worker, self.tell, self.clock, self.pace, **ends)

    def _root(self, spec: RoleSpec, past: Past) -> Host:
        children = self._children[spec.name]
        come = {str(n): names.model(child) for n, child in enumerate(children)}
        go = {str(n): names.mean(child) for n, child in enumerate(children)}
        if spec.under:
            come[ROOT], go[ROOT] = names.mean(spec), names.model(spec)
        sizes = Sizes(self.config.normalise, self.describe)
        worker = self.workers.averager(self.parameters, list(come), sizes if sizes.all else None)
        role = Root(spec.name, children=len(children), barrier=self.config.rule.groups_wait, inner=bool(spec.under))
        return self._host(role, worker, models=self._models(worker, come, go))

    def _models(self, worker: ModelWorker, come: dict[str, str], go: dict[str, str]) -> Models:
        """Ends of the edges by which models come and go, from their names by port."""
        addresses, size = self.topology.addresses, self.model_size
        inlets = {port: self.channels.weights_inlet(addresses[edge], size) for port, edge in come.items()}
        return Models(worker, inlets, {port: self._publisher(edge) for port, edge in go.items()})

    def _learner(self, spec: RoleSpec, past: Past) -> Host:
        config, g, port = self.config, spec.group, self.topology.learner_port
        inlet = self._inlet(names.batches(g) if port == "batches" else names.chunks(g))
        store = None if self.store is None else state_path(Path(self.store.folder), g)
        worker = self.workers.trainer(config, self.describe, chunk_views(self.edge.layout, inlet.body), store, g)
        role = learner(spec, config, self.edge.layout.id, port, saves=self.store is not None and self.store.saves)
        # Actors begin with the credit of the first window. The learner grants the rest.
        inlet.reserve(role.credits.waiting(), relayed=port == "batches")
        if store is not None and self.store is not None and self.store.resume:
            resume(role, worker, read_state(store))
            if role.discipline.groups_wait and config.groups > 1:
                # Groups that wait for each other must have the same number of rounds left, so some repeat rounds.
                kept = (read_values(state_path(Path(self.store.folder), group)) for group in range(config.groups))
                role.steps = min(values["learner"]["steps"] for values in kept)
        models = self._models(worker, {ROOT: names.mean(spec)}, {ROOT: names.model(spec)}) if spec.under else None
        weights_out = self._publisher(names.weights(g))
        return self._host(role, worker, inlets={port: inlet}, weights_out=weights_out, models=models)

    def _buffer(self, spec: RoleSpec, past: Past) -> Host:
        g = spec.group
        inlet = self._inlet(names.chunks(g))
        relay = self.channels.relay(self.topology.addresses[names.batches(g)], self.edge, inlet)
        role = Buffer(spec.name, discipline=self.config.rule)
        return self._host(role, Idle(), inlets={"chunks": inlet}, outlets={"batches": relay})

    def _actor(self, spec: RoleSpec, past: Past) -> Host:
        config, channels, addresses = self.config, self.channels, self.topology.addresses
        outlet = channels.outlet(addresses[names.chunks(spec.group)], self.edge, spec.index)
        layout = self.edge.layout
        number = spec.group * config.actors + spec.index
        body = chunk_views(layout, outlet.slot)
        return self._host(
            Actor(
                spec.name,
                producer=spec.index,
                layout=layout.id,
                discipline=rule_after(config, past.steps * config.actors),
                sequence=past.life * LIFE,
            ),
            self.workers.sampler(config, self.describe, layout, body, number, self.clock, past, self.place),
            outlets={"chunks": outlet},
            weights_in=channels.weights_inlet(addresses[names.weights(spec.group)], self.acting),
        )


def rule_after(config: TrainConfig, steps: int) -> Discipline:
    """The discipline for an actor that begins after so many steps of its group, which a stored replay holds."""
    rule, facts = config.rule, config.facts
    if not (facts.replays and config.checkpoint_replay):
        return rule
    return type(rule)(msgspec.structs.replace(facts, free_samples=max(0, facts.free_samples - steps)), rule.options)


def resume(role: Learner, worker: Worker, state: State) -> None:
    """Continue a learner from a stored state.

    Raises
    ------
    ValueError
        if the state belongs to another configuration.
    """
    values = state.values
    worker.restore(State(state.arrays, values["algorithm"]))
    role.restore(values["learner"], replay_kept=values["replay"])


def learner(spec: RoleSpec, config: TrainConfig, layout: int, port: str, *, saves: bool = False) -> Learner:
    """Make the learner of a configuration."""
    discipline = config.rule
    waits = discipline.groups_wait
    membership = None
    if spec.under:
        membership = Membership(spec.group, config.groups, config.fusion_rounds, barrier=waits)
    return Learner(
        spec.name,
        port=port,
        layout=layout,
        discipline=discipline,
        replays=config.hyperparameters.replays,
        # Groups that wait for each other have equal budgets.
        budget_steps=config.stop_steps // (config.groups if waits else 1),
        # Only one learner takes snapshots, by the steps of all groups.
        snapshot_every_steps=config.snapshot_every_steps if spec.group == 0 else None,
        membership=membership,
        saves=saves,
    )
